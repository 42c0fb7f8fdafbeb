"""Lock a GPU for one process at a time, with a lock file that all users of the machine share.

The lock is `flock` on a descriptor: it ends with the process that holds it, however that process ends, and children do
not inherit it. The file's content (holder, purpose, start) is for people: the Setup page and messages show it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cutegen_core.records.errors import MachineError

_FOLDER = Path("/tmp")  # the same for every user, independent of TMPDIR
_ASK_AGAIN_S = 0.02
_mine: dict[tuple[str, int], int] = {}
"""Nesting depth of `hold` by GPU and thread of this process, so that a nested call does not wait for itself."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a device.

    Attributes:
        what: its purpose in a few words.
        since: Unix time.
    """

    pid: int
    user: str
    what: str
    since: float


@contextlib.contextmanager
def hold(uuid: str, what: str, timeout_s: float | None = None) -> Iterator[float]:
    """Hold the device's lock; yield the seconds spent waiting. A thread that holds it may enter again.

    Raises:
        MachineError: it is not free within `timeout_s` (the message names the holder), or the file cannot be opened.
    """
    key = (uuid, threading.get_ident())
    if key in _mine:
        _mine[key] += 1
        try:
            yield 0.0
        finally:
            _mine[key] -= 1
        return
    fd = _open(path(uuid))
    try:
        waited = _acquire(fd, uuid, timeout_s)
        _write(fd, Holder(os.getpid(), _user_name(), what, time.time()))
        _mine[key] = 1
        try:
            yield waited
        finally:
            del _mine[key]
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def find_holder(uuid: str) -> Holder | None:
    """Return the present holder of the device, or None."""
    try:
        fd = os.open(path(uuid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd)
    finally:
        os.close(fd)
    return None


def path(uuid: str) -> Path:
    """Return the lock file of a GPU; the file stays after the lock is released."""
    return _FOLDER / f"cutegen-{uuid}.lock"


def _open(file: Path) -> int:
    """Open the file for writing; every user may create it and lock it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(2):  # no O_CREAT on an existing file: Linux refuses it for other users' files in a shared /tmp
        try:
            return os.open(file, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                fd = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(fd, 0o666)  # independent of the umask
                return fd
        except OSError as error:
            raise MachineError(f"the lock of the GPU cannot be opened: {file}: {error.strerror}.") from error
    return os.open(file, flags)


def _acquire(fd: int, uuid: str, timeout_s: float | None) -> float:
    started = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return time.monotonic() - started
        except BlockingIOError:
            if timeout_s is not None and time.monotonic() - started > timeout_s:
                raise MachineError(_busy_message(uuid, timeout_s)) from None
            time.sleep(_ASK_AGAIN_S)


def _busy_message(uuid: str, timeout_s: float) -> str:
    now = find_holder(uuid)
    who = f"process {now.pid} of {now.user} ({now.what})" if now else "another process"
    return f"the GPU {uuid} has been busy for {timeout_s:g} s: {who} holds it. Wait for it, or end it."


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in containers a user id may have no name
        return str(os.getuid())


def _write(fd: int, now: Holder) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(asdict(now)).encode(), 0)


def _read(fd: int) -> Holder:
    """Read the file's content; another process may be about to write it."""
    try:
        return Holder(**json.loads(os.pread(fd, 4096, 0)))
    except (ValueError, TypeError):
        return Holder(0, "unknown", "", time.time())
