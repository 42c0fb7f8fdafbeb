"""Run the sessions and jobs of a workspace in one process, the engine.

1. A file lock makes it the only one; a second engine says so and leaves (`single`).
2. It builds the emulator if this machine has none yet, and polls the store: new or running sessions and waiting
   decisions are handed to a small pool of threads, one session never to two (`loop`).
3. A job that waits gets the third slot: a child process, whose lines are kept in the store (`job_slot`).
4. A session that fails unexpectedly is INTERRUPTED and says why; the traceback goes to the engine's log.
5. If the store itself fails (the disk is full, the file is locked), the engine tries again, ever less often, and logs
   the failure once.
6. It exits a minute after the last client (app or command line) is gone and nothing runs, and at once if a newer
   version has migrated the store.
"""

from cutegen_core.engine.single import ensure_running, is_running, keep_running, kept_running, touch_client

__all__ = ["ensure_running", "is_running", "keep_running", "kept_running", "touch_client"]
