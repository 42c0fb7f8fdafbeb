"""Write rows that lie in several pieces, such as the images of a channel: a block a row, which it reads by vectors."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.one_launch import THREADS
from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.writing import RegionText, render

_WARP, _USUAL = 32, 512


class RowPieces:
    """How each tensor lies along the pieces of a row."""

    def __init__(self, k: RowsKernel) -> None:
        self._k = k
        self._access = dict(zip((t.name for t in k.tensors), k.region.accesses, strict=True))

    def has_vectors(self, tensor: TensorText) -> bool:
        """Return whether neighbours in a piece of a row are neighbours in the tensor."""
        return _is_along(self._k.region, self._access[tensor.name])

    @property
    def whole(self) -> str:
        """Return the plan's condition under which all pieces are whole, aligned vectors."""
        *outside, inside = self._k.region.reduced
        texts: dict[str, None] = {inside.extent.text: None}
        for tensor in filter(self.has_vectors, self._k.tensors):
            access = self._access[tensor.name]
            steps = (mode.stride(access).text for mode in (*self._k.region.outer, *outside))
            texts |= dict.fromkeys([access.offset.text, *steps])
        named = dict.fromkeys(self._k.naming.let("step", text) for text in texts if text != "0")
        return " and ".join(f"{name} % {self._k.width} == 0" for name in named)


def are_pieces(region: Region) -> bool:
    """Return whether rows lie in pieces that can be read, and written, by vectors."""
    varying = [a for a in region.accesses if region.varies(a) and not a.counted]
    written = [s.out for s in region.stores if region.varies(s.out)]
    several = len(region.reduced) > 1 and bool(varying)
    return several and any(_is_along(region, a) for a in varying) and all(_is_along(region, a) for a in written)


def rows_of_pieces(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Write the kernel; it has one launch for whole vectors and for others, which small workloads make, too."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    vectors = -(-region.length // k.width)
    usual = min(_USUAL, max(_WARP, 1 << (vectors - 1).bit_length()))
    block = piece.param("BLOCK", usual, _WARP, 2 * _WARP, *THREADS)
    pieces = RowPieces(k)
    own = {"parameters": k.parameters, "passed": k.names}
    whole = k.pass_number("whole", pieces.whole, "bool")
    piece.code = render("rows_pieces.cu.j2", k=k, pieces=pieces, p={"BLOCK": block}, whole=whole, **own)
    piece.launch(f"{name}<{block}>", (k.rows,), (block,), k)
    return piece


def _is_along(region: Region, access: TensorAccess) -> bool:
    return not access.counted and region.varies(access) and region.reduced[-1].stride(access).text == "1"
