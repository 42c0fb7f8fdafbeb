"""Write rows that lie in several pieces, such as the images of a channel: a block a row, which it reads by vectors."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.one_launch import THREADS, WARP, block_of
from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.writing import RegionText, render


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
        texts = [inside.extent.text]
        for tensor in filter(self.has_vectors, self._k.tensors):
            access = self._access[tensor.name]
            texts += [access.offset.text, *(mode.stride(access).text for mode in (*self._k.region.outer, *outside))]
        return self._k.multiples(self._k.width, texts)


def are_pieces(region: Region) -> bool:
    """Return whether rows lie in pieces that can be read, and written, by vectors."""
    varying = [a for a in region.accesses if region.varies(a) and not a.counted]
    written = [s.out for s in region.stores if region.varies(s.out)]
    several = len(region.reduced) > 1 and bool(varying)
    return several and any(_is_along(region, a) for a in varying) and all(_is_along(region, a) for a in written)


def rows_of_pieces(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Write the kernel; it has one launch for whole vectors and for others, which small workloads make, too."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    usual = block_of(-(-region.length // k.width), 512)
    block = piece.param("BLOCK", usual, WARP, 2 * WARP, *THREADS)
    pieces = RowPieces(k)
    own = {"parameters": k.parameters, "passed": k.names}
    whole = k.pass_number("whole", pieces.whole, "bool")
    piece.code = render("rows_pieces.cu.j2", k=k, pieces=pieces, p={"BLOCK": block}, whole=whole, **own)
    piece.launch(f"{name}<{block}>", (k.rows,), (block,), k)
    return piece


def _is_along(region: Region, access: TensorAccess) -> bool:
    return not access.counted and region.varies(access) and region.reduced[-1].stride(access).text == "1"
