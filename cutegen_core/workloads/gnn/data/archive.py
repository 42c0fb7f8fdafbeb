"""Read arrays of an .npz file in chunks: nothing is unpickled, and no more is read than the file's table promises."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.npy_files import HEADER_ERRORS
from cutegen_core.workloads.gnn.graph import Array

_CHUNK_BYTES = 16 << 20
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class Member:
    """One array of an .npz file."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    by_column: bool

    @property
    def place(self) -> str:
        """Return the words that name it in an error."""
        return f"{self.path}, array {self.key}"

    def read(self) -> Array:
        """Return the whole array."""
        parts = list(self.items())
        flat = np.concatenate(parts) if parts else np.empty(0, self.dtype)
        return flat.reshape(self.shape, order="F" if self.by_column else "C")

    def rows(self) -> Iterator[Array]:
        """Yield the array in chunks of rows.

        Raises:
            UsageError: the array is stored column by column.
        """
        if self.by_column and len(self.shape) > 1 and min(self.shape) > 1:
            raise UsageError(f"{self.place} is stored column by column. Save numpy.ascontiguousarray of it.")
        width = math.prod(self.shape[1:])
        for part in self.items(multiple=width):
            yield part.reshape(-1, *self.shape[1:])

    def items(self, first: int = 0, last: int | None = None, multiple: int = 1) -> Iterator[Array]:
        """Yield the items first..last-1, in the order of storage, in chunks of a multiple of so many items.

        Raises:
            EOFError: the file ends before.
        """
        size = self.dtype.itemsize
        per_chunk = max(_CHUNK_BYTES // max(size * multiple, 1), 1) * multiple
        left = (math.prod(self.shape) if last is None else last) - first
        with _errors_of(self.path, self.key), zipfile.ZipFile(self.path) as archive, _open(archive, self.key) as stream:
            _read_header(stream, self.path, self.key)
            _skip(stream, first * size)
            while left > 0:
                data = stream.read(min(left, per_chunk) * size)
                if len(data) < min(left, per_chunk) * size:
                    raise EOFError("the data ends early")
                yield np.frombuffer(data, self.dtype)
                left -= per_chunk


class Archive:
    """The arrays of an .npz file, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _errors_of(path, ""), zipfile.ZipFile(path) as archive:
            self._sizes = {info.filename: info.file_size for info in archive.infolist()}

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self._sizes

    def member(self, key: str, kinds: str, dimensions: int) -> Member:
        """Return an array whose dtype is of one of these kinds (letters of numpy) and that has so many dimensions.

        Raises:
            UsageError: there is none, its bytes are too few, or it is of another kind.
        """
        if key not in self:
            names = ", ".join(sorted(self._sizes))[:200] or "none"
            raise UsageError(f"{self.path} has no array {key}; it holds {names}.")
        with _errors_of(self.path, key), zipfile.ZipFile(self.path) as archive, _open(archive, key) as stream:
            shape, by_column, dtype = _read_header(stream, self.path, key)
            data = self._sizes[f"{key}.npy"] - stream.tell()
        member = Member(self.path, key, shape, dtype, by_column)
        if math.prod(shape) * dtype.itemsize != data:
            raise UsageError(f"{member.place}: its header promises {shape} of {dtype}, the file holds {data} bytes.")
        if dtype.kind not in kinds or len(shape) != dimensions:
            raise UsageError(
                f"{member.place} has {len(shape)} dimensions of {dtype}; it must have {dimensions} of "
                f"{' or '.join(_KINDS[kind] for kind in kinds)}."
            )
        return member


_KINDS = {"i": "integers", "u": "unsigned integers", "f": "floats"}


def _open(archive: zipfile.ZipFile, key: str) -> IO[bytes]:
    return archive.open(f"{key}.npy")


def _read_header(stream: IO[bytes], path: Path, key: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"version {version} of the .npy format")
    shape, by_column, dtype = _READERS[version](stream)
    if dtype.hasobject:
        raise UsageError(f"{path}, array {key} holds Python objects, which are not read: they may run code.")
    if any(length < 0 for length in shape):
        raise ValueError(f"a shape of {shape}")
    return shape, by_column, dtype


def _skip(stream: IO[bytes], count: int) -> None:
    while count:
        read = len(stream.read(min(count, _CHUNK_BYTES)))
        if not read:
            raise EOFError("the data ends early")
        count -= read


@contextmanager
def _errors_of(path: Path, key: str) -> Iterator[None]:
    """Turn errors of zip, zlib and numpy into ours."""
    try:
        yield
    except (*HEADER_ERRORS, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        place = f"{path}, array {key}," if key else str(path)
        raise UsageError(f"{place} cannot be read: {str(error)[:300]}.") from error
