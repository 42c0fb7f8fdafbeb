"""Lay the steps of a session out as a tree on lanes: the path to the best kernel, the branches, and dead ends.

1. A step hangs on the last earlier step whose kernel it was made from; 0 is the start.
2. A step, the one that goes on from it, and so on, are a chain: one line, in one lane. The first chain leads to the
   best kernel. A step that nothing goes on from is a twig beside the line it hangs on.
3. What hangs on a step, and came after its chain had gone on, has a line of its own beside the chain.
4. A chain has the first lane right of the one it comes from that is free as long as its line is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cutegen_core.trajectory.state import State

START = 0
"""The number that steps made from nothing hang on."""


class TreeRow(NamedTuple):
    """The place where a step is drawn.

    Attributes:
        parent: number of the step it hangs on, `START` for none.
        lane: column of its point, 0 at the left.
        rail: column of the line that leads down to its parent.
        on_best: it is the best kernel, or one the best was made from.
        branches: others go on from it, beside the chain it hangs on.
    """

    number: int
    parent: int
    lane: int
    rail: int
    on_best: bool
    branches: bool


class _Chain(NamedTuple):
    """Steps in one lane; `above` is the index of the chain it comes from, its line runs from `first` to `last`."""

    members: tuple[int, ...]
    above: int
    first: int
    last: int


class _WaitingChain(NamedTuple):
    """A chain to be made; `late` are the steps that hang on its line and not on the one it comes from."""

    member: int
    above: int
    first: int
    late: tuple[int, ...] = ()


class _Tree:
    """Which steps hang on which."""

    def __init__(self, parents: Mapping[int, int], best: int) -> None:
        self.children: dict[int, list[int]] = {number: [] for number in (START, *parents)}
        for number, parent in parents.items():
            self.children[parent].append(number)
        self.best_way = frozenset(_way(best, parents))

    def goes_on(self, number: int) -> bool:
        return bool(self.children[number]) or number in self.best_way

    def next(self, number: int) -> int | None:
        """Return the step that continues the chain."""
        found = [child for child in self.children[number] if self.goes_on(child)]
        return next((child for child in found if child in self.best_way), found[-1] if found else None)

    def chain(self, member: int) -> tuple[int, ...]:
        members = [member]
        while (following := self.next(members[-1])) is not None:
            members.append(following)
        return tuple(members)


def step_tree(state: State) -> tuple[TreeRow, ...]:
    """Return a row for every step, in order."""
    parents = _parents(state)
    best = state.best_step
    tree = _Tree(parents, best.number if best else START)
    chains, hangs_on = _chains(tree)
    lanes = _lanes(chains)
    lane_of = {number: lanes[i] for i, chain in enumerate(chains) for number in chain.members}
    begins = {chain.members[0] for chain in chains}
    rows = []
    for number, parent in parents.items():
        rail = lanes[hangs_on[number]]
        lane = lane_of[number] if number in lane_of else _free(chains, lanes, rail + 1, number, number)
        branches = number in begins and tree.goes_on(number)
        rows.append(TreeRow(number, parent, lane, rail, number in tree.best_way, branches))
    return tuple(rows)


def _parents(state: State) -> dict[int, int]:
    made_in: dict[str, int] = {}
    parents: dict[int, int] = {}
    for step in state.steps:
        key = step.parent or step.base
        parents[step.number] = made_in.get(key, START) if key else START
        if step.candidate:
            made_in[step.candidate] = step.number
    return parents


def _way(number: int, parents: Mapping[int, int]) -> Iterator[int]:
    while number != START:
        yield number
        number = parents[number]


def _chains(tree: _Tree) -> tuple[list[_Chain], dict[int, int]]:
    """Return every chain after the one it comes from, and for every step the index of the chain it hangs on."""
    chains: list[_Chain] = []
    hangs_on: dict[int, int] = {}
    waiting = [_WaitingChain(START, 0, START)]
    while waiting:
        wanted, index = waiting.pop(), len(chains)
        members = tree.chain(wanted.member)
        last = max(members[-1], *tree.children[members[-1]], *wanted.late, START)
        chains.append(_Chain(members, wanted.above, wanted.first, last))
        waiting += _hung(tree, wanted.late, wanted.member, index, hangs_on)
        for member, following in zip(members, (*members[1:], None), strict=True):
            early = [c for c in tree.children[member] if following is None or c <= following]
            waiting += _hung(tree, early, following, index, hangs_on)
            late = [c for c in tree.children[member] if c not in early]
            waiting += (_WaitingChain(group[-1], index, member + 1, tuple(group)) for group in _groups(tree, late))
    return chains, hangs_on


def _groups(tree: _Tree, late: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split steps into those that hang on one line each: up to the last that goes on, as the line becomes its chain,
    and the others."""
    cut = next((i for i in range(len(late), 0, -1) if tree.goes_on(late[i - 1])), 0)
    yield from (group for group in (late[:cut], late[cut:]) if group)


def _hung(
    tree: _Tree, steps: Sequence[int], own: int | None, index: int, hangs_on: dict[int, int]
) -> Iterator[_WaitingChain]:
    """Note that these steps hang on this chain's line; yield the chains that begin there. `own` is of the chain."""
    for number in steps:
        hangs_on[number] = index
        if number != own and tree.goes_on(number):
            yield _WaitingChain(number, index, number)


def _lanes(chains: Sequence[_Chain]) -> list[int]:
    """Return the lane of each chain."""
    lanes = [-1] * len(chains)
    for index in sorted(range(len(chains)), key=lambda i: (chains[i].first, i)):
        chain = chains[index]
        leftmost = lanes[chain.above] + 1
        lanes[index] = _free(chains, lanes, leftmost, chain.first, chain.last)
    return lanes


def _free(chains: Sequence[_Chain], lanes: Sequence[int], leftmost: int, first: int, last: int) -> int:
    """Return the first lane from `leftmost` on that no line takes between these steps."""
    taken = {lanes[i] for i, chain in enumerate(chains) if chain.first <= last and chain.last >= first}
    return next(lane for lane in range(leftmost, leftmost + len(taken) + 1) if lane not in taken)
