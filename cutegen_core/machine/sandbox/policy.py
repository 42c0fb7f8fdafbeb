"""Define the policy of a sandboxed process and the levels of enforcement."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from cutegen_core.records.errors import MachineError

MAX_LEVEL_VARIABLE = "CUTEGEN_SANDBOX_MAX"
_PATH_FIELDS = ("read", "write", "execute")


class SandboxLevel(StrEnum):
    """What is enforced in addition to the resource limits."""

    LANDLOCK_SECCOMP = "landlock+seccomp"
    SECCOMP = "seccomp"
    NONE = "none"


class Policy(NamedTuple):  # no dataclass: every sandboxed tool would wait 15 ms longer for their module
    """What a process may still do. The network is always denied.

    Attributes:
        read: files and folders it may read. With neither `read` nor `write` it can open nothing at all.
        write: files and folders it may also change, and create and delete files in.
        execute: programs it may execute (and read); `run` adds its tool.
        memory_bytes: address space of each process.
        cpu_seconds: processor time of each process.
        file_bytes: largest file it may write.
        processes: whether it may start children and execute the programs in `execute`.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    memory_bytes: int
    cpu_seconds: int
    file_bytes: int
    execute: tuple[Path, ...] = ()
    processes: bool = False

    def to_json(self) -> str:
        """Return the policy as the launcher's argument."""
        paths = {name: [str(path) for path in getattr(self, name)] for name in _PATH_FIELDS}
        return json.dumps(self._asdict() | paths)

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**(fields | {name: tuple(Path(path) for path in fields[name]) for name in _PATH_FIELDS}))


def strongest_allowed() -> SandboxLevel:
    """Return the strongest level that CUTEGEN_SANDBOX_MAX allows; MachineError if its value is no level."""
    asked = os.environ.get(MAX_LEVEL_VARIABLE, "")
    if not asked:
        return SandboxLevel.LANDLOCK_SECCOMP
    if asked not in ("seccomp", "none"):
        raise MachineError(f"{MAX_LEVEL_VARIABLE}={asked!r} is not a level; use 'seccomp' or 'none', or unset it.")
    return SandboxLevel(asked)
