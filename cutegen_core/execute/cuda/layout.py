"""Where a tensor lies in its mapping, and what another process needs to map it; no CUDA needed to speak of it."""

from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 16
"""What float4 loads, cp.async and tensor maps need; allocators give 256."""

FRONT_BYTES = 4096
"""Least room for the guard pattern in front of a tensor."""


@dataclass(frozen=True)
class Layout:
    """A tensor at the end of a mapping; all in bytes.

    Attributes:
        mapped: size of the mapping, a multiple of the device's granularity.
        offset: of the tensor's first byte.
    """

    nbytes: int
    mapped: int
    offset: int

    @classmethod
    def of(cls, nbytes: int, granularity: int, alignment: int = ALIGNMENT) -> Layout:
        """The layout of a tensor; `alignment` (a power of two) of its start costs up to that many bytes of tail
        behind it, where an overflow is seen by the pattern instead of a fault."""
        mapped = -(-(nbytes + FRONT_BYTES) // granularity) * granularity
        return cls(nbytes, mapped, (mapped - nbytes) // alignment * alignment)

    @property
    def tail(self) -> int:
        return self.mapped - self.offset - self.nbytes


@dataclass(frozen=True)
class Shared:
    """A tensor of a buffer set, offered to a runner.

    Attributes:
        fd: stands for the whole mapping; whoever exported it closes it after sending.
        output: the candidate may write it.
    """

    name: str
    fd: int
    layout: Layout
    output: bool
