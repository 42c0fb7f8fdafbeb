"""Say what of long rows is worth keeping: what more than one walk over a row reads."""

from __future__ import annotations

from functools import cached_property

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.rows.folds import Fold, folds_of
from cutegen_core.propose.playbook.rows.vectors import RowVectors
from cutegen_core.propose.playbook.statements import TermText
from cutegen_core.records.problem import ITEMSIZE


class LongRows(RowVectors):
    """What the template reads next to the kernel: how each tensor lies along a row, and which are kept."""

    def __init__(self, k: RowsKernel) -> None:
        super().__init__(k)
        steps = [list(one.terms) for one in k.statements.passes]
        self.walks = [_tensors(terms) for terms in (*steps, list(k.statements.final))]

    @cached_property
    def folds(self) -> list[Fold]:
        """Return the walks that reduce something."""
        return list(folds_of(self._k.statements.passes, self.walks))

    @cached_property
    def kept(self) -> list[TensorText]:
        """Return what more than one walk over the row reads, and no other block."""
        several = [t for t in self._k.inputs if t.copied and sum(t in walk for walk in self.walks) > 1]
        return [t for t in several if t.once and self.order(t) == "contiguous"]

    @cached_property
    def final(self) -> list[TermText]:
        """Return what is computed for each element that is written."""
        terms = list(self._k.statements.final)
        for fold in self.folds:
            terms = fold.with_function(terms)
        return terms

    @cached_property
    def others(self) -> list[list[TensorText]]:
        """Return what each walk reads that no block keeps."""
        walks = [*(fold.tensors for fold in self.folds), self.walks[-1]]
        return [[t for t in walk if t not in self.kept] for walk in walks]

    @property
    def length(self) -> int:
        """Return how many elements a row has, in the traced workload."""
        return self._k.region.length

    @property
    def bytes_kept(self) -> int:
        """Return how many there are of each place of the row."""
        return sum(self.size(t) for t in self.kept)

    @property
    def copied_bytes(self) -> str:
        """Return the bytes of a place of the row that a block copies, as C++: all, of a row that is WHOLE."""
        in_step = sum(self.size(t) for t in self.kept if self.in_step(t))
        return str(in_step) if in_step == self.bytes_kept else f"WHOLE ? {self.bytes_kept} : {in_step}"

    @property
    def wanted_vectors(self) -> int:
        """Return how many vectors a thread reads at a time: a block of 1024 has 64 registers a thread."""
        most = max(len(walk) for walk in self.walks)
        return 4 if self._k.width <= 4 and most <= 2 else 2

    @property
    def takes_registers(self) -> bool:
        """Return whether a thread of a cluster that holds a part of the row has few registers left."""
        others = (t for walk in self.walks for t in walk if t not in self.kept)
        return len(self.kept) > 1 or any(self.order(t) != "contiguous" for t in others)

    def place(self, tensor: TensorText) -> int:
        """Return where a kept tensor begins, in bytes for each place of the row."""
        before = self.kept[: self.kept.index(tensor)]
        return sum(self.size(t) for t in before)

    def size(self, tensor: TensorText) -> int:
        """Return the bytes of an element."""
        return ITEMSIZE[self._access[tensor.name].dtype]


def _tensors(terms: list[TermText]) -> list[TensorText]:
    found = (t.tensor for t in terms if t.tensor is not None and t.tensor.copied)
    return list(dict.fromkeys(found))
