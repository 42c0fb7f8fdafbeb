"""Draw the steps as a list with their tree beside it: one component for all, so that hundreds cost one widget.

Texts reach it as data and become text nodes; every row is a link with its own address. The component sends an action
and a step's number. Its look and behaviour are in `step_list.css` and `step_list.js`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.evaluate.timing.overall import regressed
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import Outcome
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import listed, lowered, micros, pace_against, pace_short
from cutegen_core.views import SessionView, SpeedRow, StepRow, TreeRow
from pages.components.shared import ui_state
from pages.components.shared.texts import show_hidden

_HERE = Path(__file__)
AUTHORS: Mapping[Author, tuple[str, str]] = {
    Author.PERSON: ("✎", "by hand"), Author.PLAYBOOK: ("≡", "playbook"), Author.MODEL: ("✦", "model"),
    Author.IMPORT: ("⇥", "imported"),
}  # fmt: skip
"""The mark and the name of each author."""


class StepListActions(NamedTuple):
    """Callbacks that take the numbers of steps: `compare` takes A, 0 for the best, and B."""

    open: Callable[[int], None]
    compare: Callable[[int, int], None]


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    js, css = (_HERE.with_suffix(end).read_text(encoding="utf-8") for end in (".js", ".css"))
    return st.components.v2.component("cutegen-steps", js=js, css=css)


def render_step_list(view: SessionView, tree: tuple[TreeRow, ...], speeds: tuple[SpeedRow, ...],
                     shown: int | None, actions: StepListActions) -> None:  # fmt: skip
    """Draw all steps, newest first, each with its idea."""
    key = "steps"
    against = {row.step: row for row in speeds}
    rows = [_row(view, row, place, against.get(row.number)) for row, place in zip(view.steps, tree, strict=True)]
    numbers = {row.number for row in view.steps}
    data = {"session": view.id, "shown": shown, "rows": rows[::-1]}

    def received() -> None:
        match ui_state.reported(key, "asked"):
            case {"act": "open", "step": int(number)} if number in numbers:
                actions.open(number)
            case {"act": "compare", "step": int(number), "with": int(other)} if number in numbers:
                actions.compare(other if other in numbers else 0, number)

    _component()(key=key, data=data, on_asked_change=ui_state.noted(received))


def _row(view: SessionView, row: StepRow, place: TreeRow, speed: SpeedRow | None) -> dict[str, object]:
    """Make a row's data for the component."""
    mark, author = AUTHORS[row.author] if row.author else ("", "")
    stars = "★" if row.is_best else "☆" if row.outcome is Outcome.PROMOTED else ""
    next_from = row.is_base and view.state.branched
    against = speed.against if speed else None
    return {
        "n": row.number, "parent": place.parent, "lane": place.lane, "rail": place.rail, "best": place.on_best,
        "shape": _shape(row), "mark": mark, "star": stars, "idea": show_hidden(row.idea or _no_idea(row)),
        "next": next_from, "verdict": verdict(row),
        "took": micros(1000 * row.latency_ms) if row.latency_ms is not None else "",
        "ratio": pace_short(against) if against and row.status is Status.PASSED else "",
        "compare": row.candidate is not None,
        "said": said(row, place, author, speed) + (" · the next step starts from it" if next_from else ""),
    }  # fmt: skip


def said(row: StepRow, place: TreeRow, author: str, speed: SpeedRow | None) -> str:
    """Write the whole row in words, for its tooltip and for screen readers."""
    against, slower = speed.against if speed else None, regressed(row.shapes)
    parts = [
        f"Step {row.number}: {row.idea or _no_idea(row)}",
        author,
        verdict(row),
        "the best so far" if row.is_best else "was promoted" if row.outcome is Outcome.PROMOTED else "",
        micros(1000 * row.latency_ms) if row.latency_ms is not None else "",
        pace_against(against) if against else "",
        *(f"{shape.workload} {micros(1000 * shape.latency_ms)}" for shape in row.shapes),
        f"regressed on {listed(shape.workload for shape in slower)}" if slower else "",
        "from the start" if place.parent == views.START else f"continues from step {place.parent}",
        "on the path to the best" if place.on_best and not row.is_best else "",
        "starts a branch" if place.branches else "",
    ]
    return show_hidden(" · ".join(part for part in parts if part))


def verdict(row: StepRow) -> str:
    """Write a step's outcome or verdict in a word or two."""
    if row.status is None:
        return lowered(row.outcome) if row.outcome else "open"
    if row.status is Status.PASSED:
        return lowered(row.outcome) if row.outcome else "passed"
    return lowered(row.status)


def _no_idea(row: StepRow) -> str:
    if row.outcome is Outcome.UNANSWERED:
        return "no further kernel"
    return "no kernel" if row.outcome else "no kernel yet"


def _shape(row: StepRow) -> str:
    if row.status is None:
        return "open" if row.outcome is None else "none"
    if row.status is not Status.PASSED:
        return "failed"
    return "best" if row.is_best else "passed"
