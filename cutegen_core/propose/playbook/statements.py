"""Write the terms of a region as C++ statements, in the order in which a kernel computes them.

1. `before`: what needs no reduction; of a product, what follows its sum. `scanned`: what a scan combines.
2. `passes`: one walk over the row for each level of reductions, and what can be computed once they are complete.
3. `final`: what is computed for each element that is written, from which the roots of the results follow.
A result that needs no reduction is stored in the first pass, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import Parameters, TensorText
from cutegen_core.propose.playbook.pointwise.operations import GREATEST, LEAST
from cutegen_core.propose.playbook.regions import Region, RegionResult
from cutegen_core.propose.playbook.terms import Term


@dataclass(frozen=True)
class TermText:
    """A statement `ctype const name = code`, or a load from `tensor`."""

    name: str
    ctype: str
    code: str
    tensor: TensorText | None
    varies: bool


@dataclass(frozen=True)
class ReductionText:
    """One reduction of a pass."""

    name: str
    kind: str
    ctype: str
    operand: str
    op: str
    identity: str

    @property
    def sum(self) -> str:
        return f"{self.name}_so_far"

    @property
    def part(self) -> str:
        return f"{self.name}_part"

    @property
    def shares(self) -> str:
        return f"{self.name}_shares"

    @property
    def lost(self) -> str:
        return f"{self.name}_lost"


@dataclass(frozen=True)
class StoreText:
    """A result: `root` is stored to `tensor`, for each element or, if it does not vary, for each row.

    Attributes:
        term: the name of the root among the region's terms.
        ctype: type of its arithmetic.
    """

    root: str
    tensor: TensorText
    term: str
    ctype: str


@dataclass(frozen=True)
class PassText:
    """One walk over the row: statements for each element, what is reduced or stored, statements once it is."""

    terms: tuple[TermText, ...]
    reductions: tuple[ReductionText, ...]
    stores: tuple[StoreText, ...]
    after: tuple[TermText, ...]


class Statements:
    """The statements of one kernel; `names` maps terms and sizes of the region to their names in C++."""

    def __init__(self, region: Region, names: Mapping[str, str], parameters: Parameters) -> None:
        self._terms, self._names, self._parameters = region.terms, names, parameters
        reductions = [t for t in self._terms.terms.values() if t.reduction is not None]
        levels = max((t.level for t in reductions), default=0)
        roots = [*(s.root for s in region.stores), *(t.reduction[1] for t in reductions if t.reduction)]
        fixed = self._terms.closure(_all_needs(self._terms.terms, roots), varying=False)
        after = [tuple(self._text(t) for t in fixed if t.level == level) for level in range(levels + 1)]
        self.before = after[0]
        self.scan = next((self._reduction(t, *t.reduction) for t in reductions if t.varies and t.reduction), None)
        self.scanned = self._varying([t.reduction[1] for t in reductions if t.varies and t.reduction])
        self.roots = tuple(self._store(s) for s in region.stores)
        early = [s for s in self.roots if levels and s.tensor.varies and self._level(s.term) == 0]
        late = [s for s in self.roots if s not in early]
        self.passes = [
            self._pass([t for t in reductions if t.level == level], early if level == 1 else [], after[level])
            for level in range(1, levels + 1)
        ]
        self.final = self._varying([s.term for s in late])
        self.loads = tuple(self._text(t) for t in self._terms.loads)
        self.stores = tuple(s for s in late if s.tensor.varies)
        self.row_stores = tuple(s for s in late if not s.tensor.varies)

    def of(self, result: StoreText) -> tuple[TermText, ...]:
        """Return what a result needs where nothing is reduced."""
        return tuple(self._text(t) for t in self._terms.closure([result.term], varying=False))

    def _varying(self, roots: Sequence[str]) -> tuple[TermText, ...]:
        return tuple(self._text(t) for t in self._terms.closure(roots, varying=True))

    def _level(self, term: str) -> int:
        return self._terms.terms[term].level if term in self._terms.terms else 0

    def _store(self, store: RegionResult) -> StoreText:
        tensor, known = self._parameters.tensor_of(store.out), self._terms.terms.get(store.root)
        assert tensor is not None
        return StoreText(self._renamed(store.root), tensor, store.root, known.ctype if known else "auto")

    def _pass(self, reductions: Sequence[Term], stores: Sequence[StoreText], after: tuple[TermText, ...]) -> PassText:
        operands = [t.reduction[1] for t in reductions if t.reduction] + [s.term for s in stores]
        texts = (self._reduction(t, *t.reduction) for t in reductions if t.reduction)
        return PassText(self._varying(operands), tuple(texts), tuple(stores), after)

    def _reduction(self, term: Term, kind: str, operand: str) -> ReductionText:
        return ReductionText(
            self._names[term.name], kind, term.ctype, self._renamed(operand), kind.capitalize(),
            _identity(kind, term.ctype),
        )  # fmt: skip

    def _text(self, term: Term) -> TermText:
        tensor = self._parameters.tensor_of(term.access)
        return TermText(self._names[term.name], term.ctype, self._renamed(term.code), tensor, term.varies)

    def _renamed(self, code: str) -> str:
        return re.sub(r"\b(?:v|count|source)\d*\b", lambda m: self._names.get(m[0], m[0]), code)


def term_names(region: Region, naming: Naming) -> dict[str, str]:
    """Return a readable name for each term: after its tensor, after its reduction, or t1, t2, ..."""
    names: dict[str, str] = {}
    for term in region.terms.terms.values():
        if term.access is not None:
            wanted = "place" if term.access.counted else f"{term.access.tensor}_value"
            names[term.name] = naming.fresh(wanted)
        else:
            names[term.name] = f"t{len(names)}" if term.reduction is None else f"{term.reduction[0]}{len(names)}"
    return names


def _all_needs(terms: Mapping[str, Term], roots: Sequence[str]) -> list[str]:
    """Return everything reachable from the roots, through reductions too."""
    found: dict[str, None] = {}
    pending = [r for r in roots if r in terms]
    while pending:
        name = pending.pop()
        if name not in found and name in terms:
            found[name] = None
            pending += terms[name].needs
    return list(found)


def _identity(kind: str, ctype: str) -> str:
    if kind in ("sum", "times"):
        return f"{ctype}({0 if kind == 'sum' else 1})"
    if ctype == "long":
        return LEAST if kind == "max" else GREATEST
    return f"{ctype}({'-' if kind in ('max', 'logaddexp') else ''}INFINITY)"
