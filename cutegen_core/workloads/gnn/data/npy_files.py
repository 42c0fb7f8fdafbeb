"""Write and map the .npy files of a processed graph."""

from __future__ import annotations

import errno
import io
import mmap
import os
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cutegen_core.records.errors import MachineError, UsageError
from cutegen_core.workloads.gnn.graph import Array

HEADER_ERRORS = (ValueError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError)
"""What numpy raises for a wrong header, which it reads as a Python literal."""


def map_array(path: Path) -> Array:
    """Return the array of a file, read as it is used.

    Raises:
        UsageError: the file is missing, damaged, or holds Python objects.
    """
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (*HEADER_ERRORS, OSError, EOFError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Convert the graph again.") from error
    if not isinstance(array, np.memmap):
        raise UsageError(f"{path} is not a .npy file.")
    return array


def expect_jumps(array: Array) -> None:
    """Tell the kernel that a mapped array larger than half of the memory is read here and there: no reading ahead.

    One that fits is read ahead, and soon all of it is in memory.
    """
    if isinstance(array, np.memmap) and array.nbytes > memory_bytes() // 2:
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]


def memory_bytes() -> int:
    """Return how much memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def create_array(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return a mapped array in a new file, whose blocks the disk has already given."""
    with disk_errors(path):
        array: Array = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        with path.open("r+b") as stream:
            # A mapped file with holes would end the process by a signal where the disk fills up.
            os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    return array


def shorten(path: Path, length: int) -> None:
    """Cut a file with a one-dimensional array to its first entries.

    Raises:
        MachineError: numpy wrote a header of another length.
    """
    array = map_array(path)
    header = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, fields)
    data = path.stat().st_size - array.nbytes
    if len(header.getvalue()) != data:
        raise MachineError(f"the header of {path} changed its length; this version of numpy was not tried.")
    with disk_errors(path), path.open("r+b") as stream:
        stream.write(header.getvalue())
        stream.truncate(data + length * array.itemsize)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Say what to do where the disk is full.

    Raises:
        MachineError: in place of the operating system's error.
    """
    try:
        yield
    except OSError as error:
        hint = " Free some space, or set CUTEGEN_HOME to a larger disk." if error.errno == errno.ENOSPC else ""
        raise MachineError(f"{path} cannot be written: {error.strerror}.{hint}") from error
