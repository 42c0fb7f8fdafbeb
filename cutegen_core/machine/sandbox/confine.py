"""Confine the calling process; this cannot be undone.

1. `apply` enforces a policy with resource limits, no core dumps, no new privileges, Landlock (file access) and seccomp
   (system calls). It takes the strongest level the kernel offers and returns that level.
2. `seal` confines a process whose library has already started threads, such as a CUDA driver.

Landlock: https://docs.kernel.org/userspace-api/landlock.html. The system calls are listed in `syscall_filter`.
"""

from __future__ import annotations

import _socket  # `socket` takes longer to import, and every sandboxed tool waits for it
import ctypes
import os
import resource
from collections.abc import Callable

from cutegen_core.machine.sandbox import landlock, syscall_filter
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel, strongest_allowed
from cutegen_core.records.errors import MachineError

_OPEN_FILES = 256
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38


def apply(policy: Policy, *, may_exec: bool = False) -> SandboxLevel:
    """Confine the calling process, before it starts any thread.

    Args:
        may_exec: whether it may execute another program, which a policy with `processes` always allows.

    Raises:
        MachineError: other threads run (they would stay free), a path is missing, or the kernel refuses.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise MachineError("the sandbox must be entered before other threads start; this process already has some.")
    strongest = strongest_allowed()
    give_up_privileges()
    files = strongest is SandboxLevel.LANDLOCK_SECCOMP and landlock.enter(
        read=policy.read, write=policy.write, execute=policy.execute
    )
    _limit_resources(policy)
    calls = strongest is not SandboxLevel.NONE and syscall_filter.install(
        files="none" if not policy.read and not policy.write else "read" if not policy.write else "write",
        processes=policy.processes, may_exec=may_exec or policy.processes,
    )  # fmt: skip
    if not calls:
        return SandboxLevel.NONE
    return SandboxLevel.LANDLOCK_SECCOMP if files else SandboxLevel.SECCOMP


def seal(file_bytes: int) -> SandboxLevel:
    """Deny all threads of the calling process to open files, execute programs or create sockets.

    Open files stay usable. Landlock is not applied: it would bind one thread only, and nothing is left to deny.

    Args:
        file_bytes: size to which files open for writing may grow.

    Raises:
        MachineError: the kernel refuses the filter, or sockets or files can still be opened.
    """
    strongest = strongest_allowed()
    give_up_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if strongest is SandboxLevel.NONE or not syscall_filter.install(files="none", processes=False, may_exec=False):
        return SandboxLevel.NONE
    if not (is_refused(lambda: _socket.socket().close()) and is_refused(lambda: os.close(os.open("/", os.O_RDONLY)))):
        raise MachineError("the sandbox was set up, but sockets or files can still be opened.")
    return SandboxLevel.SECCOMP


def give_up_privileges() -> None:
    """Keep other processes of the user from inspecting this one, and executed programs from gaining rights."""
    landlock.check(_LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")
    landlock.check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def is_refused(action: Callable[[], None]) -> bool:
    """Tell whether an action fails with PermissionError."""
    try:
        action()
    except PermissionError:
        return True
    return False


def _limit_resources(policy: Policy) -> None:
    for name, value, slack in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_AS, policy.memory_bytes, 0),
        (resource.RLIMIT_CPU, policy.cpu_seconds, 1),
        (resource.RLIMIT_FSIZE, policy.file_bytes, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES, 0),
    ):
        _, ceiling = resource.getrlimit(name)
        bound = ceiling if ceiling != resource.RLIM_INFINITY else max(value + slack, 0)
        resource.setrlimit(name, (min(value, bound), min(value + slack, bound)))
