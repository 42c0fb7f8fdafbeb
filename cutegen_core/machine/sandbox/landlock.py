"""Restrict the calling process with Landlock to the files it is granted; this cannot be undone.

Source of the numbers: the Linux kernel's include/uapi/linux/landlock.h. A right that an older kernel does not know
stays unrestricted on that kernel.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

from cutegen_core.records.errors import MachineError

TYPE_CHECKING = False  # `typing` takes longer to import than all of this, and every sandboxed tool waits for it
if TYPE_CHECKING:
    from cutegen_core.machine.sandbox.policy import AnyPath

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR, _FS_TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FS_RIGHTS_OF_ABI = (0, 13, 14, 15, 15, 16)
"""Number of file rights known by a kernel of ABI 0, 1, 2, ...; the last entry holds for newer ABIs."""
_FS_IOCTL = 1 << 15
_FS_FILE_RIGHTS = _FS_EXECUTE | _FS_WRITE_FILE | _FS_READ_FILE | _FS_TRUNCATE | _FS_IOCTL
_FS_DEVICES = 1 << 6 | 1 << 11 | _FS_IOCTL
_NET_TCP, _SCOPE_SOCKETS_AND_SIGNALS = 0b11, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def enter(
    *, read: Sequence[AnyPath], write: Sequence[AnyPath], execute: Sequence[AnyPath], devices: Sequence[AnyPath] = ()
) -> bool:
    """Restrict the calling thread to these files and deny TCP; return False if this kernel has no Landlock.

    Args:
        devices: device files to read, write and control (ioctl), as a driver's library does.

    Raises:
        MachineError: a path is missing, or the kernel refuses.
    """
    abi = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if abi < 1:
        return False
    handled = (1 << _FS_RIGHTS_OF_ABI[min(abi, len(_FS_RIGHTS_OF_ABI) - 1)]) - 1
    attributes = _Ruleset(handled, _NET_TCP if abi >= 4 else 0, _SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _LIBC.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    check(ruleset, "landlock_create_ruleset")
    reading = _FS_READ_FILE | _FS_READ_DIR
    for paths, rights in (
        (read, reading),
        (write, handled & ~_FS_EXECUTE & ~_FS_DEVICES),
        (execute, reading | _FS_EXECUTE),
        (devices, reading | _FS_WRITE_FILE | _FS_IOCTL),
    ):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    check(_LIBC.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(ruleset)
    return True


def _allow(ruleset: int, path: AnyPath, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(f"the sandbox cannot grant {os.fspath(path)}: {error.strerror}.") from error
    rule = _PathBeneath(rights if os.path.isdir(path) else rights & _FS_FILE_RIGHTS, fd)
    check(
        _LIBC.syscall(_ADD_RULE, ruleset, ctypes.c_uint32(1), ctypes.byref(rule), ctypes.c_uint32(0)),
        f"landlock_add_rule for {os.fspath(path)}",
    )
    os.close(fd)


def check(result: int, what: str) -> None:
    """Raise MachineError if a system call failed."""
    if result < 0:
        raise MachineError(f"the sandbox could not be set up: {what}: {os.strerror(ctypes.get_errno())}.")
