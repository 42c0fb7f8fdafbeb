"""Operands of a convolution as tensor cores want them: a tap of a place is whole vectors of channels, side by side."""

from __future__ import annotations

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import Parameters, layout_of, vectors_of, width_of
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ELEMENT, Extent, product
from cutegen_core.propose.playbook.windows.kernels import ConvolutionKernel, part_of, places_of
from cutegen_core.propose.playbook.windows.values import Convolution
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

PACK_THREADS = 256


class PackedConvolution(ConvolutionKernel):
    """A convolution whose operands were packed, so that they are no parameters of it.

    Attributes:
        CV: vectors of channels of a place.
    """

    def _lay_out_operands(self, image: TensorAccess) -> None:
        channels = self._count().channels
        self.CV = self._number("CV", vectors_of(channels, image.dtype))


class Packing:
    """A kernel that packs places of D channels: of `inner` groups and `outer` images, or filters and groups.

    Attributes:
        places: extents of the places or taps, fastest first; P: how many there are.
        packed: the scratch buffer that it writes.
    """

    def __init__(self, region: Region, name: str, naming: Naming, *, image: bool) -> None:
        sliding, access = region.sliding, region.a if image else region.b
        assert isinstance(sliding, Convolution)
        assert access is not None
        self.name = name
        self._parameters = Parameters((), naming)
        extents = [w.image if image else w.taps for w in sliding.windows]
        kind, self.axes = "image" if image else "taps", list("whd"[: len(extents)])
        named = list(zip(self.axes, reversed(extents), strict=True))
        self.places = [self._number(f"{kind}_{word}", one) for word, one in named]
        self.P = self._number(f"{kind}_places", product(extents))
        images, groups = region.outer[0].extent, sliding.parts
        outer = (("G", "g", groups), ("N", "n", images)) if image else (("M", "m", sliding.filters), ("G", "g", groups))
        counted = (("D", "c", sliding.channels), *outer)
        self.D, self.inner, self.outer = (self._number(wanted, one) for wanted, _, one in counted)
        self.CV = self._number("CV", vectors_of(sliding.channels, access.dtype))
        around = [part_of(self._parameters, access, symbol, one) for _, symbol, one in counted]
        self._parameters.add(access, layout_of(*places_of(self._parameters, access, extents), *around))
        self.x, self.element = self._parameters.tensors[0], ELEMENT[access.dtype]
        self.width = width_of(access.dtype)
        self.packed = naming.fresh("packed_image" if image else "packed_weight")
        self._dtype = access.dtype

    def _number(self, wanted: str, one: Extent) -> str:
        return self._parameters.count(wanted, one)

    @property
    def parameters(self) -> str:
        """Return the C++ parameter list, but for the buffer."""
        return self._parameters.text.strip()

    def add(self, piece: RegionText, tile: int) -> None:
        """Add the kernel, its buffer and its launch; a block packs `tile` channels of some places."""
        places = min(PACK_THREADS, 2 * PACK_THREADS * self.width // tile)
        piece.add_code(render("convolution_pack.cu.j2", k=self, tile=tile, places=places, threads=PACK_THREADS))
        piece.scratch.append(
            ScratchText(self.packed, self._dtype, (self.outer, self.inner, self.P, self.CV, str(self.width)))
        )
        tiles = f"ceil_div({self.P}, {places}) * ceil_div({self.CV}, {tile // self.width})"
        blocks = " * ".join((tiles, *(n for n in (self.inner, self.outer) if n != "1")))
        arguments = (*self._parameters.arguments, self.packed)
        piece.launches.append(LaunchText(self.name, (blocks,), (str(PACK_THREADS),), arguments))
