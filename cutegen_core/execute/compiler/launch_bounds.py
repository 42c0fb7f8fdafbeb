"""Read from a cubin what each kernel demands of its launches: `__launch_bounds__`, a fixed block, a fixed cluster.

The compiler writes these as attributes into the section `.nv.info.NAME` of each kernel: a byte of format, a byte that
names the attribute, and its value. Names: `cuobjdump -elf` prints them as EIATTR_...
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from cutegen_core.records.launch import Dim3

_PREFIX = ".nv.info."
_SIZED = 4
"""Format of an attribute whose value follows its size; the others hold theirs in the size's place."""
_MAX_THREADS, _REQUIRED_BLOCK, _REQUIRED_CLUSTER, _MAX_CLUSTER = 0x05, 0x10, 0x3D, 0x3F


@dataclass(frozen=True)
class LaunchBounds:
    """The demands of one kernel; None or 0 means none.

    Attributes:
        max_threads: of a block, from `__launch_bounds__`.
        block, cluster: the only shape that can be launched, from `__block_size__` and `__cluster_dims__`.
        max_cluster: most blocks of a cluster, from the third number of `__launch_bounds__`.
    """

    max_threads: int = 0
    block: Dim3 | None = None
    cluster: Dim3 | None = None
    max_cluster: int = 0


def read_launch_bounds(cubin: bytes) -> Mapping[str, LaunchBounds]:
    """Return the demands of every kernel of a cubin by its mangled name."""
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    return {s.name.removeprefix(_PREFIX): _read_section(s.data()) for s in sections if s.name.startswith(_PREFIX)}


def _read_section(data: bytes) -> LaunchBounds:
    values = dict(_iterate_attributes(data))
    x, y, z = struct.unpack("<3I", values.get(_MAX_THREADS, bytes(12)))
    return LaunchBounds(
        max_threads=x * y * z,
        block=_read_dim3(values.get(_REQUIRED_BLOCK)),
        cluster=_read_dim3(values.get(_REQUIRED_CLUSTER)),
        max_cluster=int.from_bytes(values.get(_MAX_CLUSTER, b""), "little"),
    )


def _read_dim3(value: bytes | None) -> Dim3 | None:
    if value is None:
        return None
    x, y, z = struct.unpack("<3I", value)
    return x, y, z


def _iterate_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size
