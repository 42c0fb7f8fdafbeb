"""The pane of a step with several candidates: what came of each, its code, and the choice of another one."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import counted, lowered
from cutegen_core.views import AlternativeRow, StepView
from pages.components.access import access
from pages.components.session.evidence.pane import PaneInput
from pages.components.shared import address, code_tables, ui_state
from pages.components.shared.texts import Html, escape_html, heading, quiet, show_hidden, table, tooltip

HOW_KEPT = (
    "Kept is the step's own: of those that are right the fastest, by times, or by estimates where nothing is timed; "
    "where none is right, the one that got furthest."
)


def has_several(shown: StepView) -> bool:
    """Say whether the step has several candidates."""
    return bool(shown.step.alternatives)


def render_candidates(given: PaneInput) -> None:
    """Draw the table, and below it the candidate that the address names, else the first that is not the step's own."""
    rows = views.alternatives(given.view.state, given.shown.step)
    passed = sum(row.status is Status.PASSED for row in rows)
    heading(f"Candidates · {passed} of {given.shown.step.width} passed")
    st.html(_table(rows))
    quiet(HOW_KEPT)
    written = [row for row in rows if row.candidate]
    if written:
        _render_one(given, _choose(given.shown, written))


def _table(rows: tuple[AlternativeRow, ...]) -> str:
    several = len({row.model for row in rows}) > 1
    cells = [
        (
            f"{row.number}{' · kept' if row.kept else ''}",
            row.idea,
            *((row.model,) if several else ()),
            _verdict(row),
            row.took,
            row.registers or "",
        )
        for row in rows
    ]
    header = ("", "idea", *(("model",) if several else ()), "verdict", "time", "registers")
    return table(header, cells, numbers_from=len(header) - 2)


def _verdict(row: AlternativeRow) -> Html:
    shape, kind = ("✓", "passed") if row.status is Status.PASSED else ("✗", "failed")
    said = f"{shape} {lowered(row.status)}" if row.status else "not tested" if row.candidate else "✗ no kernel"
    kind = kind if row.status or not row.candidate else ""
    return Html(f'<span class="cg-state cg-{kind}" title="{tooltip(row.message)}">{escape_html(said)}</span>')


def _choose(shown: StepView, rows: list[AlternativeRow]) -> AlternativeRow:
    """Draw the choice of the candidate to look at."""
    by_name = {str(row.number): row for row in rows}
    usual = next((name for name, row in by_name.items() if not row.kept), next(iter(by_name)))
    named = address.get("candidate")
    drawn = named if named in by_name else usual
    key = ui_state.showing(f"candidate-{shown.step.number}", drawn)
    chosen = st.selectbox(
        "Candidate", list(by_name), list(by_name).index(drawn), key=key, label_visibility="collapsed",
        format_func=lambda name: show_hidden(f"candidate {name}: {by_name[name].idea}"),
        on_change=ui_state.noted(address.follow, key, "candidate", drawn),
    )  # fmt: skip
    return by_name[chosen or drawn]


def _render_one(given: PaneInput, row: AlternativeRow) -> None:
    """Draw what came of a candidate, the button that goes on with it, and its code."""
    if row.message:
        quiet(row.message)
    if not row.kept and not access.looks_on():
        _render_choice(given, row)
    if row.plan:
        st.html(f'<div class="cg-plan">{escape_html(row.plan)}</div>')
    text = given.store.text(row.candidate)
    heading(f"Candidate {row.number}, {counted(text.count(chr(10)), 'line')}")
    with st.container(key="candidate-code"):
        st.html(code_tables.plain(text, code_tables.Notes()))


def _render_choice(given: PaneInput, row: AlternativeRow) -> None:
    view, number = given.view, given.shown.step.number
    is_open = given.shown.step is view.state.open_step
    help_text = "This step goes on with it." if is_open else "A new step begins with it; this one stays as it is."
    st.button(
        f"Go on with candidate {row.number}", key=f"candidate-choose-{view.state.meaning_seq}",
        disabled=not row.can_choose, help=help_text,
        on_click=ui_state.noted(
            ui_state.choose, view.id,
            lambda _: Decision(DecisionKind.CHOOSE, view.state.meaning_seq, candidate=row.candidate, step=number),
        ),
    )  # fmt: skip
