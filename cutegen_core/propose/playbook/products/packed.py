"""Copy operands of halves that are no whole vectors: a kernel for each before the product, which then reads vectors.

TMA and cp.async bring whole, aligned vectors. Where operands come element by element, tensor cores wait for them.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.propose.playbook.kernels import operands_of
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import NO_MODES, Parameters, layout_of, vectors_of, width_of
from cutegen_core.propose.playbook.products.simt import WriteProduct, all_of
from cutegen_core.propose.playbook.regions import Mode, Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ELEMENT, ONE, Extent, extent, product
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

_THREADS = 256


def needs_packing(region: Region) -> bool:
    """Return whether an operand is no whole, aligned vectors in the traced workload."""
    return any(
        not operand.contiguous or any(step.size % width_of(operand.access.dtype) for step in operand.steps)
        for operand in operands_of(region)
    )


def packed(region: Region, name: str, naming: Naming, suffix: str, write: WriteProduct) -> RegionText:
    """Write the kernels that copy both operands, and the product of the copies."""
    *batch, rows, columns = region.outer
    (inner,) = region.reduced
    assert region.a is not None
    assert region.b is not None
    copies = [
        OperandCopy(access, (*batch, side), inner, f"{name}_{word}", naming)
        for word, access, side in (("a", region.a, rows), ("b", region.b, columns))
    ]
    a, b = copies
    inside = replace(region, a=a.access, b=b.access, reduced=(replace(inner, extent=a.depth),))
    piece = write(inside, name, naming, suffix)
    piece.code = "\n".join([*(copy.code for copy in copies), piece.code])
    piece.scratch = [*(copy.scratch for copy in copies), *piece.scratch]
    piece.launches = [*(copy.launch for copy in copies), *piece.launches]
    return piece


class OperandCopy:
    """A kernel that copies L operands of R rows, or columns, of K elements.

    Attributes:
        packed: the scratch buffer that it writes; access: how the product reads that.
        depth: K in whole vectors.
        k_fast: elements along K are neighbours in memory.
    """

    def __init__(self, access: TensorAccess, outer: tuple[Mode, ...], inner: Mode, name: str, naming: Naming) -> None:
        *batch, side = outer
        several = tuple(m for m in batch if m.stride(access).text != "0")
        self.name, self.width, self.k_fast = name, width_of(access.dtype), inner.stride(access).text == "1"
        self.element, self.packed = ELEMENT[access.dtype], naming.fresh("packed")
        self._parameters, counts = Parameters((), naming), product([m.extent for m in several])
        self.R, self.K, self.L = (
            self._parameters.count(wanted, one)
            for wanted, one in (("R", side.extent), ("K", inner.extent), ("L", counts))
        )
        modes = ((side,), (inner,), several or NO_MODES)
        self._parameters.add(access, layout_of(*(self._parameters.nested(m, access) for m in modes)))
        self.x = self._parameters.tensors[0]
        self.depth = vectors_of(inner.extent, access.dtype).times(extent(self.width))
        strides = self._strides(several, side, inner)
        self.access = TensorAccess(self.packed, access.dtype, strides, whole=True)
        self.scratch = ScratchText(self.packed, access.dtype, (self.L, self.R, self.depth.text))

    def _strides(self, several: tuple[Mode, ...], side: Mode, inner: Mode) -> dict[str, Extent]:
        """Return the strides of the copy by symbol."""
        found, step = {inner.symbols[-1]: ONE, side.symbols[-1]: self.depth}, self.depth.times(side.extent)
        for mode in reversed(several):
            found[mode.symbols[-1]] = step
            step = step.times(mode.extent)
        return found

    @property
    def parameters(self) -> str:
        """Return the C++ parameter list, but for the buffer."""
        return self._parameters.text.strip()

    @property
    def code(self) -> str:
        return render("product_pack.cu.j2", k=self, width=self.width, threads=_THREADS)

    @property
    def launch(self) -> LaunchText:
        threads = all_of(self.L, self.R, f"ceil_div({self.K}, {2 * self.width})")
        blocks = f"ceil_div({threads}, {_THREADS})"
        return LaunchText(self.name, (blocks,), (str(_THREADS),), (*self._parameters.arguments, self.packed))
