"""Where the steps of a session are drawn: lanes of the best way, of branches and of twigs; lines never run together."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from cutegen_core.records.event import AnsweredBy, SessionSettings
from cutegen_core.trajectory.state import State, Step
from cutegen_core.views import START, TreeRow, step_tree


def tree(*parents: int, best: int = 0) -> dict[int, TreeRow]:
    """Return a tree of steps 1, 2, ... that hang on these; each makes a kernel of its own."""
    steps = tuple(
        Step(n, None, candidate=f"k{n}", parent=f"k{parent}" if parent else None) for n, parent in enumerate(parents, 1)
    )
    state = State(
        SessionSettings("", "", AnsweredBy.PLAYBOOK, "", "", ""), steps=steps, best=f"k{best}" if best else None
    )
    return {row.number: row for row in step_tree(state)}


def lanes(rows: dict[int, TreeRow]) -> list[int]:
    return [row.lane for row in rows.values()]


def test_the_way_to_the_best_is_the_first_lane_and_the_others_are_twigs() -> None:
    rows = tree(0, 1, 1, 3, 3, 5, best=5)
    assert lanes(rows) == [0, 1, 0, 1, 0, 1]
    assert [row.on_best for row in rows.values()] == [True, False, True, False, True, False]
    assert not any(row.branches for n, row in rows.items() if n > 1)


def test_a_branch_has_a_lane_of_its_own_as_long_as_it_lasts() -> None:
    rows = tree(0, 1, 2, 1, 4, 3, 6, best=7)
    assert [rows[n].lane for n in (1, 2, 3, 6, 7)] == [0, 0, 0, 0, 0]
    assert [rows[n].lane for n in (4, 5)] == [1, 2], "5 goes nowhere: a twig of 4"
    assert (rows[4].rail, rows[4].parent, rows[4].branches) == (1, 1, True)
    rows = tree(0, 1, 1, 3, 2, 4, 5, best=7)
    assert rows[3].lane != rows[5].lane
    assert rows[3].branches


def test_failures_in_a_row_share_one_line() -> None:
    rows = tree(0, *[1] * 20, best=1)
    assert set(lanes(rows)[1:]) == {1}
    assert {row.rail for row in rows.values()} == {0}


def test_attempts_after_a_rewind_hang_beside_what_went_on() -> None:
    rows = tree(0, 1, 2, 1, 1, best=3)
    assert [rows[n].lane for n in (4, 5)] == [2, 1]
    assert rows[4].rail == rows[5].rail == 1


def test_a_step_without_a_kernel_hangs_on_its_base_and_a_fresh_start_on_nothing() -> None:
    steps = (Step(1, None, candidate="a"), Step(2, "a"), Step(3, None, candidate="b", parent="gone"))
    state = State(SessionSettings("", "", AnsweredBy.PLAYBOOK, "", "", ""), steps=steps)
    assert [row.parent for row in step_tree(state)] == [START, 1, START]
    assert step_tree(State(SessionSettings("", "", AnsweredBy.PLAYBOOK, "", "", ""))) == ()


def test_the_same_kernel_proposed_twice_is_its_last_step() -> None:
    steps = (Step(1, None, candidate="a"), Step(2, "a", candidate="a", parent="a"), Step(3, "a", candidate="c"))
    rows = step_tree(State(SessionSettings("", "", AnsweredBy.PLAYBOOK, "", "", ""), steps=steps, best="c"))
    assert [row.parent for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(40))
def test_no_line_runs_through_a_step_or_along_another_line(seed: int) -> None:
    draw = random.Random(seed)
    parents = [draw.choice((max(0, n - draw.randint(1, 9)), draw.randrange(n))) for n in range(1, 60)]
    rows = tree(*parents, best=draw.randrange(1, 60))
    for row in rows.values():
        assert all(rows[n].lane != row.rail for n in range(row.parent + 1, row.number))
    by_lane: dict[int, list[tuple[int, int]]] = {}
    for row in rows.values():
        by_lane.setdefault(row.rail, []).append((row.parent, row.number))
    for lines in by_lane.values():
        longest: dict[int, int] = {}
        for parent, number in lines:
            longest[parent] = max(number, longest.get(parent, 0))
        for (_, end), (begin, _) in pairwise(sorted(longest.items())):
            assert end <= begin


def test_five_hundred_steps_take_few_lanes() -> None:
    draw = random.Random(7)
    parents, base = [], 0
    for n in range(1, 501):
        parents.append(base)
        if draw.random() < 0.3:
            base = n
        if draw.random() < 0.02:
            base = draw.randrange(n)
    assert max(lanes(tree(*parents, best=base))) < 12
