"""Define the policy of a sandboxed process and the levels of enforcement."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Sequence
from enum import StrEnum

from cutegen_core.records.errors import MachineError

TYPE_CHECKING = False  # every sandboxed tool waits for the imports of this module, and `typing` is the longest
if TYPE_CHECKING:
    from typing import NamedTuple

    AnyPath = str | os.PathLike[str]

    class _Fields(NamedTuple):
        read: tuple[AnyPath, ...]
        write: tuple[AnyPath, ...]
        memory_bytes: int
        cpu_seconds: int
        file_bytes: int
        execute: tuple[AnyPath, ...] = ()
        processes: bool = False
else:
    _NAMES = ("read", "write", "memory_bytes", "cpu_seconds", "file_bytes", "execute", "processes")
    _Fields = namedtuple("_Fields", _NAMES, defaults=((), False))

MAX_LEVEL_VARIABLE = "CUTEGEN_SANDBOX_MAX"
_PATHS = ("read", "write", "execute")


class SandboxLevel(StrEnum):
    """What is enforced in addition to the resource limits."""

    LANDLOCK_SECCOMP = "landlock+seccomp"
    SECCOMP = "seccomp"
    NONE = "none"


class Policy(_Fields):
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

    __slots__ = ()

    def to_arguments(self) -> list[str]:
        """Return the policy as arguments of the launcher: each a name and a value."""
        paths = [f"{name}={os.fspath(path)}" for name in _PATHS for path in getattr(self, name)]
        return paths + [f"{name}={int(value)}" for name, value in self._asdict().items() if name not in _PATHS]

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Policy:
        """Read what `to_arguments` wrote."""
        paths: dict[str, list[str]] = {name: [] for name in _PATHS}
        numbers: dict[str, int] = {}
        for name, _, value in (argument.partition("=") for argument in arguments):
            if name in paths:
                paths[name].append(value)
            else:
                numbers[name] = int(value)
        return cls(
            tuple(paths["read"]), tuple(paths["write"]), numbers["memory_bytes"], numbers["cpu_seconds"],
            numbers["file_bytes"], tuple(paths["execute"]), bool(numbers["processes"]),
        )  # fmt: skip


def strongest_allowed() -> SandboxLevel:
    """Return the strongest level that CUTEGEN_SANDBOX_MAX allows; MachineError if its value is no level."""
    asked = os.environ.get(MAX_LEVEL_VARIABLE, "")
    if not asked:
        return SandboxLevel.LANDLOCK_SECCOMP
    if asked not in ("seccomp", "none"):
        raise MachineError(f"{MAX_LEVEL_VARIABLE}={asked!r} is not a level; use 'seccomp' or 'none', or unset it.")
    return SandboxLevel(asked)
