"""What a verdict rests on beside the candidate, the problem and the device, as one digest.

A cached verdict holds as long as nothing has changed that could change it: the source files of the rooms that judge a
candidate, and the versions of the packages that compile and run it. Both are read from disk, so a clone that was
edited or updated does not answer with verdicts of the judge it had before.
"""

from __future__ import annotations

from functools import cache

from cutegen_core.machine import toolchain
from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.source_digest import digest

ROOMS = ("evaluate", "execute", "judge", "kernel", "machine", "records")
"""Who takes part in a verdict: stages, compiler and executors, the judge, the plan, device limits and the sandbox."""

LIBRARIES = ("torch", "numpy", "cuda-bindings", "pyelftools")
"""Packages beside the toolchain that compute, launch or read what a verdict says."""


@cache
def judge_digest() -> str:
    """Return the digest for this process; it is made once and takes some 50 ms."""
    libraries = {name: toolchain.installed_version(name) for name in LIBRARIES}
    return digest(PACKAGE, ROOMS, {**toolchain.installed_versions(), **libraries})
