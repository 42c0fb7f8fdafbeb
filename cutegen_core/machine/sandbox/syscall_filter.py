"""Install the sandbox's seccomp filter, which decides the system calls a process may make (x86-64 Linux).

A denied call fails with EPERM, as if the user lacked the right. Calls newer than this table, and calls whose arguments
a filter cannot inspect (`clone3`, `openat2`, io_uring), fail with ENOSYS, so that the C library uses the older calls.
Numbers: arch/x86/entry/syscalls/syscall_64.tbl; filter format: https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

from cutegen_core.records.errors import MachineError

TYPE_CHECKING = False  # `typing` takes longer to import than all of this, and every sandboxed tool waits for it
if TYPE_CHECKING:
    from typing import Literal

    FileAccess = Literal["none", "read", "write"]

_NETWORK = {
    "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "accept4": 288,
}  # fmt: skip
_OTHER_PROCESSES = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_send_signal": 424,
    "pidfd_open": 434, "pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448, "migrate_pages": 256,
    "move_pages": 279, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "setpgid": 109, "setsid": 112,  # every child stays in the process group that is killed at the end
}  # fmt: skip
_KERNEL = {
    "personality": 135, "pivot_root": 155, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "syslog": 103,
    "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "finit_module": 313, "kexec_file_load": 320,
    "bpf": 321, "userfaultfd": 323, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443, "mknod": 133, "mknodat": 259,
}  # fmt: skip
_CHANGE_FILES = {
    "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "chown": 92, "lchown": 94, "utime": 132, "setxattr": 188, "lsetxattr": 189, "removexattr": 197,
    "lremovexattr": 198, "utimes": 235, "mkdirat": 258, "fchownat": 260, "futimesat": 261, "unlinkat": 263,
    "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268, "utimensat": 280, "renameat2": 316,
    "fchmodat2": 452,
}  # fmt: skip
_OPEN, _OPENAT, _OPENAT2 = 2, 257, 437
_CLONE, _FORK, _VFORK, _CLONE3 = 56, 57, 58, 435
_EXEC = (59, 322)
_KILL, _TKILL, _TGKILL = 62, 200, 234
_IO_URING = (425, 426, 427)
_NEWEST_KNOWN = 456

_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020000
_O_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_AUDIT_ARCH_X86_64 = 0xC000003E
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_SET_MODE_FILTER, _TSYNC, _SECCOMP = 1, 1, 317


def install(*, files: FileAccess, processes: bool, may_exec: bool) -> bool:
    """Filter the calling process from now on; return False if this kernel or processor has no seccomp filters.

    Args:
        files: "none": no file can be opened; "read": files can be read, but not written, renamed or deleted.
        processes: whether it may start children (never in new namespaces).
        may_exec: whether it may execute another program.

    Raises:
        MachineError: the kernel refuses the filter.
    """
    if os.uname().machine != "x86_64":
        return False
    code = build_filter(files=files, processes=processes, may_exec=may_exec)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SECCOMP, _SET_MODE_FILTER, _TSYNC, ctypes.create_string_buffer(header, len(header))) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in (errno.ENOSYS, errno.EINVAL):
        return False
    raise MachineError(f"the system-call filter was refused: {os.strerror(problem)}.")


def build_filter(*, files: FileAccess, processes: bool, may_exec: bool) -> bytes:
    """Return the filter as an array of `struct sock_filter`, for `install` or for a program that filters itself."""
    code = _FilterBuilder()
    code.require_architecture()
    code.deny((*_NETWORK.values(), *_OTHER_PROCESSES.values(), *_KERNEL.values()))
    code.deny((_CLONE3, _OPENAT2, *_IO_URING), errno.ENOSYS)
    code.deny_argument_bits(_CLONE, 0, _CLONE_NAMESPACES)
    if not may_exec:
        code.deny(_EXEC)
    if not processes:
        code.deny((_FORK, _VFORK))
        code.require_argument_bits(_CLONE, 0, _CLONE_THREAD)
        for call in (_KILL, _TKILL, _TGKILL):
            code.require_argument(call, 0, os.getpid())
    if files != "write":
        code.deny(_CHANGE_FILES.values())
        code.deny_argument_bits(_OPEN, 1, _O_CHANGING)
        code.deny_argument_bits(_OPENAT, 2, _O_CHANGING)
    if files == "none":
        code.deny((_OPEN, _OPENAT))
    return code.finish()


class _FilterBuilder:
    """Assembler of the filter. Between two checks the accumulator holds the number of the system call."""

    def __init__(self) -> None:
        self._instructions = bytearray()

    def require_architecture(self) -> None:
        self._emit(_LOAD, _ARCHITECTURE)
        self._emit(_JUMP_EQUAL, _AUDIT_ARCH_X86_64, 1, 0)
        self._emit(_RETURN, _KILL_PROCESS)
        self._emit(_LOAD, _NUMBER)
        self._emit(_JUMP_GREATER_EQUAL, _NEWEST_KNOWN + 1, 0, 1)  # x32 calls are numbered above too
        self._emit(_RETURN, _ERRNO | errno.ENOSYS)

    def deny(self, calls: Iterable[int], error: int = errno.EPERM) -> None:
        for call in calls:
            self._emit(_JUMP_EQUAL, call, 0, 1)
            self._emit(_RETURN, _ERRNO | error)

    def deny_argument_bits(self, call: int, argument: int, bits: int) -> None:
        self._check(call, argument, (_JUMP_ANY_BIT, bits, 0, 1))

    def require_argument_bits(self, call: int, argument: int, bits: int) -> None:
        self._check(call, argument, (_JUMP_ANY_BIT, bits, 1, 0))

    def require_argument(self, call: int, argument: int, value: int) -> None:
        self._check(call, argument, (_JUMP_EQUAL, value, 1, 0))

    def finish(self) -> bytes:
        self._emit(_RETURN, _ALLOW)
        return bytes(self._instructions)

    def _check(self, call: int, argument: int, jump: tuple[int, int, int, int]) -> None:
        self._emit(_JUMP_EQUAL, call, 0, 4)
        self._emit(_LOAD, _ARGUMENTS + 8 * argument)
        self._emit(*jump)
        self._emit(_RETURN, _ERRNO | errno.EPERM)
        self._emit(_LOAD, _NUMBER)

    def _emit(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._instructions += struct.pack("HBBI", operation, if_true, if_false, value)
