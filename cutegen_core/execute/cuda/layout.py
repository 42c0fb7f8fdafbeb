"""Describe the position of a tensor in its mapping, and what another process needs to map it; needs no CUDA."""

from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 16
"""Bytes that float4 loads, cp.async and tensor maps need; allocators give 256."""

FRONT_BYTES = 4096
"""Minimum size of the guard pattern in front of a tensor."""


@dataclass(frozen=True)
class Layout:
    """A tensor at the end of a mapping; all numbers in bytes.

    Attributes:
        mapped: size of the mapping, a multiple of the device's granularity.
        offset: position of the tensor's first byte.
    """

    nbytes: int
    mapped: int
    offset: int

    @classmethod
    def of(cls, nbytes: int, granularity: int, alignment: int = ALIGNMENT) -> Layout:
        """Return the layout of a tensor.

        Args:
            alignment: of its start, a power of two. It leaves a tail of fewer bytes than this after the tensor, where
                the guard pattern detects an overflow instead of a fault.
        """
        mapped = -(-(nbytes + FRONT_BYTES) // granularity) * granularity
        return cls(nbytes, mapped, (mapped - nbytes) // alignment * alignment)

    @property
    def tail(self) -> int:
        return self.mapped - self.offset - self.nbytes


@dataclass(frozen=True)
class Shared:
    """A tensor of a buffer set that a runner may map.

    Attributes:
        fd: descriptor of the whole mapping; its exporter closes it after sending.
        output: whether the candidate may write it.
    """

    name: str
    fd: int
    layout: Layout
    output: bool
