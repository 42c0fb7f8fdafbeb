"""The engine: one process per workspace that carries out sessions.

1. A file lock makes it the only one; a second engine says so and leaves.
2. It warms the compile server and the emulator, then polls the store: new or running sessions and waiting decisions
   are handed to a small pool of threads, one session never to two.
3. It leaves by itself a minute after the last client (app or command line) is gone and nothing runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

from cutegen_core import workspace
from cutegen_core.errors import CutegenError, LeaseError
from cutegen_core.event import SessionState
from cutegen_core.session import WORKING, Session
from cutegen_core.store import ENGINE_LINE, Store
from cutegen_core.tools import Tools
from cutegen_core.views.reading import state_of

POLL_S = 0.05
IDLE_EXIT_S = 60.0
SESSIONS_AT_ONCE = 2


class Engine:
    """Runs the sessions of one store until it is idle and nobody is there."""

    def __init__(self, store: Store, tools: Tools) -> None:
        self._store = store
        self._tools = tools
        self._pool = ThreadPoolExecutor(SESSIONS_AT_ONCE, thread_name_prefix="session")
        self._active: dict[str, Future[None]] = {}
        self._known: dict[str, SessionState] = {}

    def serve(self) -> None:
        """Polls until idle; errors of one session never stop the others."""
        threading.Thread(target=self._warm, daemon=True, name="warm").start()
        last_use = time.monotonic()
        while time.monotonic() - last_use < IDLE_EXIT_S:
            self._dispatch()
            if self._active or _client_age_s() < IDLE_EXIT_S:
                last_use = time.monotonic()
            time.sleep(POLL_S)

    def _dispatch(self) -> None:
        for session, future in list(self._active.items()):
            if future.done():
                del self._active[session]
                future.result()
        wanted = {waiting.session for waiting in self._store.waiting()}
        for session in self._store.sessions():
            if session not in self._known:
                self._known[session] = state_of(self._store, session).status
        wanted |= {session for session, status in self._known.items() if status in WORKING}
        for session in wanted - self._active.keys():
            self._active[session] = self._pool.submit(self._run, session)

    def _run(self, session: str) -> None:
        try:
            state = Session(self._store, session, self._tools.bench(session)).run()
            self._known[session] = state.status
            self._store.set_live(session, "")
        except LeaseError:
            self._known.pop(session, None)
        except CutegenError as error:
            self._known[session] = SessionState.INTERRUPTED
            self._store.set_live(session, str(error))

    def _warm(self) -> None:
        try:
            self._tools.warm(lambda text: self._store.set_live(ENGINE_LINE, text))
            self._store.set_live(ENGINE_LINE, "")
        except CutegenError as error:
            self._store.set_live(ENGINE_LINE, f"not ready: {error}")


# ---- one engine per workspace


def is_running() -> bool:
    """True while an engine holds the workspace's lock."""
    with _lock_file() as handle:
        return not _try_lock(handle)


def touch_client() -> None:
    """Tells the engine that somebody is there; call it every few seconds."""
    _client_file().touch()


def ensure_running() -> None:
    """Starts an engine when there is none. It outlives the caller."""
    touch_client()
    if is_running():
        return
    log = workspace.home() / "engine.log"
    with log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "cutegen_core.engine"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def keep_running(stop: threading.Event, every_s: float = 2.0) -> None:
    """Keeps an engine alive until `stop` is set: a killed one is started again. Run it in a thread."""
    while not stop.is_set():
        ensure_running()
        stop.wait(every_s)


def _client_age_s() -> float:
    try:
        return time.time() - _client_file().stat().st_mtime
    except FileNotFoundError:
        return IDLE_EXIT_S


def _client_file() -> Path:
    return workspace.home() / "client"


@contextlib.contextmanager
def _lock_file() -> Iterator[IO[str]]:
    with (workspace.home() / "engine.lock").open("a+") as handle:
        yield handle


def _try_lock(handle: IO[str], patience_s: float = 0.0) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def main() -> int:
    """Serves until idle. Exit code 0 also when another engine is already there."""
    with _lock_file() as handle:
        if not _try_lock(handle, patience_s=1.0):  # somebody may just be asking whether there is an engine
            print("another engine serves this workspace", file=sys.stderr)
            return 0
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        store = Store()
        tools = Tools(store)
        try:
            Engine(store, tools).serve()
        finally:
            tools.close()
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
