"""Open files that a person names: a pipe that nobody writes to would be waited for without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it.

    Raises:
        OSError: there is none, it may not be read, or it is a pipe or a device.
    """
    return open(path, "rb", opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a folder, a pipe or a device", path)
