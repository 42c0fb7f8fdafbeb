"""Keep what test runs build for the runs that follow: compiled kernels, the emulator with its builds, the answers of
problem files about themselves, and the sampler.

1. These caches of the workspace name their entries by content. A run links them into its own workspace, which is new.
2. A cache's folder is named by a digest of the code that decides what an entry holds, of the toolchain's versions and
   of Python's. After a change of any of them the old folder is not looked at again, so no entry can be stale.
3. Nothing but these caches is kept: the stores, the settings and the precompiled headers of a run go with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cutegen_core.machine import toolchain
from tests.places import ROOT

DECIDED_BY = {
    "compile": ("execute/compiler", "kernel", "machine", "records"),
    "emulator": ("execute/emulator", "kernel", "machine"),
    "answers": ("judge", "machine", "records"),
    "gnn-native": ("workloads/gnn/native", "machine"),
}
"""Name of a cache -> the folders of `cutegen_core` whose code decides what its entries hold."""

GENERATIONS = 2
"""So many folders of a cache stay: going back and forth between two branches builds nothing again."""
LARGEST_BYTES = 1 << 30
"""A folder that has grown beyond this is removed; a run of all tests fills a third of it."""


def kept_folder() -> Path:
    """Return where the caches are kept: below `CUTEGEN_HOME` where that is set, else in the checkout."""
    chosen = os.environ.get("CUTEGEN_HOME")
    return (Path(chosen) if chosen else ROOT / ".cache").absolute() / "tests"


def key(cache: str) -> str:
    """Digest everything that decides what the entries of a cache hold."""
    digest = hashlib.sha256(repr((sys.version, sorted(toolchain.installed_versions().items()))).encode())
    for room in DECIDED_BY[cache]:
        for path in sorted(file for file in (ROOT / "cutegen_core" / room).rglob("*") if _is_source(file)):
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


@contextmanager
def linked(kept: Path, cache: Path) -> Iterator[None]:
    """Link the kept caches into a workspace's `cache` folder; until this is left, no other run removes them."""
    kept.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    current = {name: kept / f"{name}-{key(name)}" for name in DECIDED_BY}
    with (kept / "lock").open("w") as lock:
        for folder in current.values():
            folder.mkdir(exist_ok=True)
            os.utime(folder)
        _remove_old(kept, lock.fileno())
        fcntl.flock(lock, fcntl.LOCK_SH)
        for name, folder in current.items():
            folder.mkdir(exist_ok=True)
            (cache / name).symlink_to(folder)
        yield


def _remove_old(kept: Path, lock: int) -> None:
    """Remove folders that are too many or too large, unless another run is using them."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    for name in DECIDED_BY:
        newest_first = sorted(kept.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for number, path in enumerate(newest_first):
            if number >= GENERATIONS or _size(path.rglob("*")) > LARGEST_BYTES:
                shutil.rmtree(path)


def _size(files: Iterable[Path]) -> int:
    return sum(path.lstat().st_size for path in files)
