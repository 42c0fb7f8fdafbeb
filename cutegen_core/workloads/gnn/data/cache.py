"""Keep processed graphs in the workspace: a source that has not changed is converted once, then mapped."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from cutegen_core.machine import workspace
from cutegen_core.workloads.gnn.data.processed import FORMAT


def processed_of(source: Path, files: Sequence[Path], write: Callable[[Path], None]) -> Path:
    """Return the folder of a source's processed graph; `write` fills a new one unless there is one of the same files.

    Files are the same while path, size and time of modification are. Folders of other states of the source are
    removed; who has mapped their files keeps them.
    """
    cache = workspace.cache_dir("gnn-graphs")
    of_source = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:24]
    folder = cache / f"{of_source}-{_state(files)}"
    with (cache / f"{of_source}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = cache / f"{of_source}.part"
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            part.mkdir(mode=0o700)
            try:
                write(part)
                os.rename(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            for other in cache.glob(f"{of_source}-*"):
                if other != folder:
                    shutil.rmtree(other)
    return folder


def _state(files: Sequence[Path]) -> str:
    made = hashlib.sha256(f"{FORMAT}".encode())
    for path in files:
        status = path.stat()
        made.update(f"\0{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return made.hexdigest()[:24]
