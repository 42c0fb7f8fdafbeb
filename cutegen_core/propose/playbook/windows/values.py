"""Convolutions and poolings as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ONE, Accumulated, Extent, Value
from cutegen_core.propose.playbook.windows.geometry import Window


@dataclass(frozen=True, eq=False)
class Sliding(Accumulated):
    """Windows over `operand`, which is (images, channels, places...); so is the result.

    Attributes:
        windows: one for each dimension of the places, slowest first.
    """

    operand: Value
    windows: tuple[Window, ...]

    @property
    def groups(self) -> Extent:
        """Return how many parts the channels have."""
        return ONE

    @property
    def depth(self) -> Extent:
        """Return how many channels of the image a result is made of."""
        return ONE

    @property
    def seen(self) -> int:
        """Return how many elements of the image a result is made of, in the traced workload."""
        return self.depth.size * prod(w.taps.size for w in self.windows)

    def image_at(self, access: TensorAccess) -> TensorAccess:
        """Return how the image is addressed: by image "n", group "g", channel of the group "c" and places "x0", ..."""
        n, c, *places = (access.stride(f"o{k}") for k in range(len(self.operand.dims)))
        strides = {"n": n, "g": self.depth.times(c), "c": c, **{f"x{k}": s for k, s in enumerate(places)}}
        return replace(access, strides=strides)


@dataclass(frozen=True, eq=False)
class Pooling(Sliding):
    """The largest ("max") or the sum ("sum") of what a window sees.

    Attributes:
        mean: "seen": divided by how many elements of the image the window sees; "padded": by those of the padded one.
    """

    kind: str
    mean: str = ""


@dataclass(frozen=True, eq=False)
class Convolution(Sliding):
    """A convolution, without its bias.

    Attributes:
        parts: groups of channels; each makes `filters` channels of the result of `channels` of the image.
        transposed: the weight is (channels, filters of a group, taps...), else (filters, channels of one, taps...).
    """

    weight: Value
    parts: Extent
    filters: Extent
    channels: Extent
    transposed: bool

    @property
    def groups(self) -> Extent:
        return self.parts

    @property
    def depth(self) -> Extent:
        return self.channels

    def weight_at(self, access: TensorAccess) -> TensorAccess:
        """Return how the weight is addressed: by group "g", filter "m" and channel "c" of it, and taps "x0", ..."""
        first, second, *taps = (access.stride(f"w{k}") for k in range(len(self.weight.dims)))
        own = {"m": second, "c": first} if self.transposed else {"m": first, "c": second}
        whole = (self.channels if self.transposed else self.filters).times(first)
        return replace(access, strides={"g": whole, **own, **{f"x{k}": s for k, s in enumerate(taps)}})
