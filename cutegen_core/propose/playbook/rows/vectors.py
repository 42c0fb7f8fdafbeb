"""Say which tensors of rows are read and written by vectors, and where these begin.

A row is WHOLE where all of its tensors are whole, aligned vectors. In any other row the vectors begin at the first
aligned element of one tensor, the lead; those in step with it have theirs at the same places. The elements before and
behind them, and tensors that are not in step, are copied one by one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import in_order

_MOST_SHIFTED = 8
"""Elements of a vector: both margins with what lies before and behind are less than four, and a warp has 32 threads."""

Order = Literal["contiguous", "repeated", "single"]


class RowVectors:
    """How each tensor lies along the rows of a kernel."""

    def __init__(self, k: RowsKernel) -> None:
        self._k = k
        self._access = dict(zip((t.name for t in k.tensors), k.region.accesses, strict=True))

    def order(self, tensor: TensorText) -> Order:
        """Return "contiguous", "repeated" (the same all along the fastest dimension of a row) or "single"."""
        return _order(self._k.region, self._access[tensor.name])

    def source(self, tensor: TensorText) -> str:
        """Return what the plan calls the tensor."""
        return self._access[tensor.name].tensor

    @property
    def whole(self) -> str:
        """Return the plan's condition under which a row is whole, aligned vectors."""
        width, modes = self._k.width, self._k.region.reduced
        texts = [self._k.length, modes[-1].extent.text]
        for tensor in self._contiguous:
            access = self._access[tensor.name]
            texts += [access.offset.text, *self._steps(access)]
        return " and ".join([self._k.multiples(width, texts), *self._joints])

    @property
    def joined(self) -> bool:
        """Return whether the dimensions of a row are one in memory at all sizes, so that any row has vectors."""
        return not self._joints

    @cached_property
    def lead(self) -> TensorText:
        """Return the tensor whose vectors are aligned: a result, or else what each row has of its own."""
        own = [t for t in self._contiguous if t.once]
        return next((t for t in own if t in self._k.outputs), [*own, *self._contiguous][0])

    def in_step(self, tensor: TensorText) -> bool:
        """Return whether vectors that are aligned in the lead are aligned in this tensor, in all rows."""
        access, lead = self._access[tensor.name], self._access[self.lead.name]
        same = access.offset.text == lead.offset.text and self._steps(access) == self._steps(lead)
        return self.joined and tensor in self._contiguous and same

    def is_of_all_rows(self, tensor: TensorText) -> bool:
        """Return whether each row reads the same elements of it."""
        return all(step == "0" for step in self._steps(self._access[tensor.name]))

    @property
    def shifted(self) -> bool:
        """Return whether vectors that are not in step are shifted into place: a warp has all elements that margins of
        one vector leave."""
        return self._k.width <= _MOST_SHIFTED and self.joined and any(not self.in_step(t) for t in self._contiguous)

    @property
    def halves(self) -> list[TensorText]:
        """Return the results that arithmetic has as floats and memory as halves, which are rounded two at a time."""
        made = (s.tensor for s in self._k.statements.roots if s.ctype == "float")
        return [t for t in made if t.is_half and t.copied]

    @cached_property
    def _contiguous(self) -> list[TensorText]:
        return [t for t in self._k.tensors if t.copied and self.order(t) == "contiguous"]

    @cached_property
    def _joints(self) -> list[str]:
        """Return what else must hold, at other sizes, for the dimensions of a row to be one in memory."""
        modes = self._k.region.reduced
        equal: dict[str, None] = {}
        for tensor in self._contiguous:
            step = modes[-1].extent
            for mode in reversed(modes[:-1]):
                stride = mode.stride(self._access[tensor.name]).text
                equal |= {} if stride == step.text else {f"{stride} == {step.text}": None}
                step = mode.extent.times(step)
        return list(equal)

    def _steps(self, access: TensorAccess) -> list[str]:
        return [mode.stride(access).text for mode in self._k.region.outer]


def has_vectors(region: Region) -> bool:
    """Return whether rows can be read and written by vectors."""
    varying = [a for a in region.accesses if region.varies(a) and not a.counted]
    written = [s.out for s in region.stores if region.varies(s.out)]
    read = [a for a in varying if not any(a is one for one in written)]
    along = [a for a in read if _order(region, a) == "contiguous"]
    return bool(along) and all(_order(region, a) == "contiguous" for a in written)


def _order(region: Region, access: TensorAccess) -> Order:
    fastest = region.reduced[-1].stride(access).text
    if not in_order([m.extent for m in region.reduced], [m.stride(access) for m in region.reduced]):
        return "repeated" if fastest == "0" else "single"
    return "contiguous" if fastest == "1" else "single"
