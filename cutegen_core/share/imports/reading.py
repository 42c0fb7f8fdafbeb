"""Read files from elsewhere up to a limit of decoded bytes, whatever they claim about their size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cutegen_core.machine.regular_file import open_regular
from cutegen_core.records.errors import StoreError, UsageError

MAX_BYTES = 512 << 20
LONGEST_LINE = 64 << 20
"""A line is one event or one text, which is held in memory several times."""
LONGEST_MS = 1e12
"""A time; a longer one, or a whole number that no float holds, is none."""
_GZIP = b"\x1f\x8b"


def read_whole(path: Path) -> bytes:
    """Return the content of a file of results.

    Raises:
        UsageError: it is larger than any such file.
    """
    with open_regular(path) as file:
        data = file.read(LONGEST_LINE + 1)
    if len(data) > LONGEST_LINE:
        raise UsageError(f"{path.name} has more than {LONGEST_LINE >> 20} MiB, which no file of results has")
    return data


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked where it is packed by gzip.

    Raises:
        StoreError: it, or a line, is longer than the limit, or it cannot be unpacked.
    """
    with open_regular(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if not packed:
            yield from _limited(file, path.name)
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield from _limited(unpacked, path.name)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise StoreError(f"{path.name} cannot be unpacked: {error}") from error


def _limited(source: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[bytes]:
    left = MAX_BYTES
    while line := source.readline(min(left, LONGEST_LINE) + 1):
        left -= len(line)
        if left < 0:
            raise StoreError(f"{name} has more than {MAX_BYTES >> 20} MiB of text, which no recording has")
        if len(line) > LONGEST_LINE:
            raise StoreError(f"{name} has a line of more than {LONGEST_LINE >> 20} MiB, which no recording has")
        yield line
