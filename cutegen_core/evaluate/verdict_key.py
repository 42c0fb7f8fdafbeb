"""What a verdict rests on beside the candidate, the problem and the device, as one digest.

A cached verdict holds as long as nothing has changed that could change it: the source files of the rooms that judge a
candidate, and the versions of the packages that compile and run it. Both are read from disk, so a clone that was
edited or updated does not answer with verdicts of the judge it had before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cutegen_core import PACKAGE
from cutegen_core.machine import toolchain

ROOMS = ("evaluate", "execute", "judge", "kernel", "machine", "records")
"""Who takes part in a verdict: stages, compiler and executors, the judge, the plan, device limits and the sandbox."""

LIBRARIES = ("torch", "numpy", "cuda-bindings", "pyelftools")
"""Packages beside the toolchain that compute, launch or read what a verdict says."""


@cache
def judge_digest() -> str:
    """Return the digest for this process; it is made once and takes some 50 ms."""
    libraries = {name: toolchain.installed_version(name) for name in LIBRARIES}
    return digest(PACKAGE, {**toolchain.installed_versions(), **libraries})


def digest(package: Path, versions: Mapping[str, str]) -> str:
    """Return the SHA-256 of the rooms' sources, each under its path in the package, and of the versions, in hex."""
    made = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((package / room).rglob("*")):
            if _is_source(path):
                content = path.read_bytes()
                made.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    for name, version in sorted(versions.items()):
        made.update(f"{name} {version}\n".encode())
    return made.hexdigest()


def _is_source(path: Path) -> bool:
    """Whether it is a file of ours, not one that Python or an editor leaves beside them."""
    left_over = path.suffix == ".pyc" or path.name.startswith((".", "#")) or path.name.endswith("~")
    return path.is_file() and not left_over
