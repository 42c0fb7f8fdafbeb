"""Convolutions and poolings as the templates see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.kernels import RegionKernel
from cutegen_core.propose.playbook.parameters import Nested, Parameters, layout_of
from cutegen_core.propose.playbook.pointwise.operations import LEAST
from cutegen_core.propose.playbook.regions import Mode
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import COMPUTE_TYPE, ELEMENT, Extent, product
from cutegen_core.propose.playbook.windows.geometry import Window
from cutegen_core.propose.playbook.windows.values import Convolution, Pooling


@dataclass(frozen=True)
class AxisText:
    """One dimension of the places: its letter in names, and its numbers in C++."""

    name: str
    image: str
    places: str
    taps: str
    stride: str
    padding: str
    dilation: str
    window: Window

    @property
    def geometry(self) -> str:
        """Return what the helper functions take to place a tap."""
        return f"{self.stride}, {self.padding}, {self.dilation}"

    @property
    def reach(self) -> int:
        """Return from how many elements of the image, side by side, a window of known size takes its own."""
        return (self.window.taps.size - 1) * self.window.dilation.size + 1

    def staged(self, place: str, tap: str | int) -> str:
        """Return which element of a staged row a tap of a place sees."""
        begin = f"int({place})" if self.stride == "1" else f"int({place}) * {self.stride}"
        step = f"{tap}" if self.dilation == "1" else f"{tap} * {self.dilation}"
        return begin if tap == 0 else f"{begin} + {step}"

    def seen(self, place: str, tap: str) -> str:
        """Return which element of the image a tap of a place sees, of the first tap if it is ""."""
        text = place if self.stride == "1" else f"{place} * {self.stride}"
        text += "" if self.padding == "0" else f" - {self.padding}"
        step = tap if self.dilation == "1" else f"{tap} * {self.dilation}"
        return f"{text} + {step}" if tap else text


def part_of(parameters: Parameters, access: TensorAccess, symbol: str, extent: Extent) -> Nested:
    """Return the part of a layout that walks along one coordinate."""
    return parameters.nested((Mode((symbol,), extent),), access)


def places_of(parameters: Parameters, access: TensorAccess, extents: Sequence[Extent]) -> list[Nested]:
    """Return a part of a layout for each place or tap, fastest first."""
    return [part_of(parameters, access, f"x{k}", extent) for k, extent in reversed(list(enumerate(extents)))]


class WindowsKernel(RegionKernel):
    """A kernel of windows over N images of C channels in `ctype`; P: places of one channel of the result.

    Attributes:
        axes: dimensions of the places, fastest first.
        dtype: of the image.
        weight: the tensor of the taps' factors, "" without one.
        identity: what a sum begins with.
        outside: what is seen outside of the image.
        mean: as `Pooling.mean`.
    """

    weight = mean = ""

    @property
    def element(self) -> str:
        """Return what the image consists of, as C++."""
        return ELEMENT[self.dtype]

    def _lay_out(self) -> None:
        sliding = self.region.sliding
        assert sliding is not None
        images, channels, *places = self.region.outer
        self.N = self._number("N", images.extent)
        self.C = self._number("C", channels.extent)
        self.axes = [self._axis(*each) for each in zip("whd", reversed(sliding.windows), strict=False)]
        self.P = self._number("P", product([m.extent for m in places]))
        self.ctype = COMPUTE_TYPE[sliding.dtype]
        image = self.region.a
        assert image is not None
        self.dtype = image.dtype
        self._lay_out_operands(image)
        for access in self.region.accesses:
            if access not in (self.region.a, self.region.b):
                parts = (places, (channels,), (images,))
                self._parameters.add(access, layout_of(*(self._parameters.nested(m, access) for m in parts)))

    def _lay_out_operands(self, image: TensorAccess) -> None:
        """Add the image with a mode for each place, fastest first, the channel and the number of the image."""
        images, channels = self.region.outer[:2]
        rest = [self._part(image, "c", channels.extent), self._part(image, "n", images.extent)]
        self._parameters.add(image, layout_of(*self._places(image, [w.image for w in self._windows()]), *rest))
        self.x = self.tensors[0]

    @property
    def is_contiguous(self) -> bool:
        """Return whether neighbours along a row of the image lie side by side."""
        assert self.region.a is not None
        return self.region.a.stride(f"x{len(self.axes) - 1}").text == "1"

    def _windows(self) -> list[Window]:
        assert self.region.sliding is not None
        return list(self.region.sliding.windows)

    def _places(self, access: TensorAccess, extents: list[Extent]) -> list[Nested]:
        return places_of(self._parameters, access, extents)

    def _part(self, access: TensorAccess, symbol: str, extent: Extent) -> Nested:
        return part_of(self._parameters, access, symbol, extent)

    def _axis(self, name: str, window: Window) -> AxisText:
        def number(word: str, extent: Extent) -> str:
            return self._number(f"{word}_{name}", extent)

        return AxisText(
            name, number("image", window.image), number("places", window.places), number("taps", window.taps),
            number("stride", window.stride), number("padding", window.padding), number("dilation", window.dilation),
            window,
        )  # fmt: skip

    def _number(self, wanted: str, extent: Extent) -> str:
        return self._parameters.count(wanted, extent)

    @property
    def place(self) -> str:
        """Return the number of a place of the result from those along each dimension, ow, oh and od."""
        text = f"o{self.axes[-1].name}"
        for axis in reversed(self.axes[:-1]):
            text = f"{f'({text})' if ' ' in text else text} * {axis.places} + o{axis.name}"
        return text


class PoolingKernel(WindowsKernel):
    """A kernel of a pooling: `op` combines what a window sees, from `identity` on."""

    def _lay_out(self) -> None:
        super()._lay_out()
        pooling = self.region.sliding
        assert isinstance(pooling, Pooling)
        largest = pooling.kind == "max"
        least = LEAST if self.ctype == "long" else f"-{self.ctype}(INFINITY)"
        self.identity = least if largest else f"{self.ctype}(0)"
        self.outside = self.identity
        self.op, self.mean = ("Max" if largest else "Sum"), pooling.mean

    def update(self, total: str, value: str, tap: str) -> str:
        """Return the statement that adds what a tap sees to a total."""
        return f"{total} = {self.op}{{}}({total}, {value})"


class ConvolutionKernel(WindowsKernel):
    """A kernel of a convolution: G groups, each of M filters over D channels of the image."""

    def _lay_out(self) -> None:
        super()._lay_out()
        self.identity = self.outside = f"{self.ctype}(0)"

    def update(self, total: str, value: str, tap: str) -> str:
        """Return the statement that adds what a tap sees to a total."""
        return f"{total} += {value} * static_cast<{self.ctype}>({tap})"

    def _lay_out_operands(self, image: TensorAccess) -> None:
        sliding, weight = self._count(), self.region.b
        assert weight is not None
        images = self.region.outer[0].extent
        rest = [self._part(image, s, e) for s, e in (("c", sliding.channels), ("g", sliding.parts), ("n", images))]
        self._parameters.add(image, layout_of(*self._places(image, [w.image for w in self._windows()]), *rest))
        own = (("c", sliding.channels), ("m", sliding.filters), ("g", sliding.parts))
        rest = [self._part(weight, s, e) for s, e in own]
        self._parameters.add(weight, layout_of(*self._places(weight, [w.taps for w in self._windows()]), *rest))
        self.x, self.weight = self.tensors[0], self.tensors[1].m

    def _count(self) -> Convolution:
        """Make numbers of groups, filters and channels; return the convolution."""
        sliding = self.region.sliding
        assert isinstance(sliding, Convolution)
        self.transposed = sliding.transposed
        self.G = self._number("G", sliding.parts)
        self.M = self._number("M", sliding.filters)
        self.D = self._number("D", sliding.channels)
        return sliding

    @property
    def counts(self) -> list[str]:
        """Return how many places a block's grid has along each dimension, fastest first."""
        return [f"count_{a.name}" if self.transposed else a.places for a in self.axes]

    @property
    def reached(self) -> list[str]:
        """Return how many taps see something of the image, fastest first."""
        return [f"reach_{a.name}.taps" if self.transposed else a.taps for a in self.axes]

    @property
    def grid(self) -> tuple[str, str]:
        """Return how many columns a phase has at most, and how many phases there are, as expressions of the plan."""
        if not self.transposed:
            return f"{self.N} * {self.P}", "1"
        most = (a.places if a.stride == "1" else f"ceil_div({a.places}, {a.stride})" for a in self.axes)
        strides = [a.stride for a in self.axes if a.stride != "1"]
        return " * ".join((self.N, *most)), " * ".join(strides) or "1"


def grid_of(k: ConvolutionKernel, p: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the grid of an implicit product in tiles of BM filters and BN columns."""
    columns, phases = k.grid
    tiles = f"ceil_div({columns}, {p['BN']})"
    return tiles if phases == "1" else f"{tiles} * {phases}", f"ceil_div({k.M}, {p['BM']})", k.G
