"""Run the engine: `python -m cutegen_core.engine`.

Sessions and checks wait for torch first, which takes longest to import: that begins before the engine's own imports.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from typing import IO

from cutegen_core.engine import single
from cutegen_core.judge.reference_process import PROGRAM
from cutegen_core.machine import forking, garbage, workspace

_BUILD_LEFT_S = 3600.0
"""A build takes a minute at most; the command line builds beside the engine."""


def _clear_temporary() -> None:
    """Keep temporary files where the next engine finds them, and remove those of killed engines.

    Only the engine that holds the lock may do this.
    """
    folder = workspace.home() / "tmp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(folder)
    old = time.time() - _BUILD_LEFT_S
    for scratch in (workspace.home() / "cache").rglob("build-*"):
        if scratch.is_dir() and scratch.stat().st_mtime < old:
            shutil.rmtree(scratch, ignore_errors=True)


def main() -> int:
    """Serve until idle. Return 0 also if another engine is already there."""
    garbage.collect_seldom()
    logging.basicConfig(format="%(asctime)s %(message)s")
    with single.lock_file() as handle:
        if not single.try_lock(handle, patience_s=1.0):  # another process may just be asking whether an engine runs
            print("another engine serves this workspace", file=sys.stderr)
            return 0
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        _clear_temporary()
        forking.shared().prepare([PROGRAM])
        _serve(handle)
    return 0


def _serve(lock: IO[str]) -> None:
    # Imported while the fork server imports torch.
    from cutegen_core.engine.loop import Engine
    from cutegen_core.trajectory.store import Store
    from cutegen_core.wiring import Tools

    store = Store()
    tools = Tools(store)
    try:
        Engine(store, tools, lambda: single.is_in_place(lock)).serve()
    finally:
        tools.close()
        store.close()


if __name__ == "__main__":
    sys.exit(main())
