"""Show the effect of each hunk of a change: a button that starts the ablation, and the table of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from cutegen_core.evaluate.timing.overall import regressed
from cutegen_core.records.decision import Decision, DecisionKind, StudyKind
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import listed, lowered
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.shared import ui_state
from pages.components.shared.texts import Html, escape_html, heading, note, quiet, table, tooltip

if TYPE_CHECKING:  # they import the evaluator, which takes a while to load
    from cutegen_core.evaluate.ablation import AblationTable
    from cutegen_core.evaluate.variant import VariantResult

FEWEST, MOST = 2, 8
_SHAPES = {"FASTER": "▲", "SAME": "=", "SLOWER": "▼"}


def tried(view: SessionView, shown: StepView) -> bool:
    """Tell whether there is a table for the shown step."""
    return view.state.study(StudyKind.ABLATION, shown.step.candidate) is not None


def render_ablation(store: Store, view: SessionView, shown: StepView, hunks: int) -> None:
    """Draw the table if there is one, and the button that makes it."""
    state, candidate = view.state, shown.step.candidate or ""
    found = state.study(StudyKind.ABLATION, candidate)
    if found and found.message:
        note("warning", found.message)
    elif found:
        from cutegen_core.evaluate.ablation import AblationTable

        _render(store.record(AblationTable, found.result))
    if state.wants_study(StudyKind.ABLATION, candidate):
        quiet("● The hunks are tested separately as soon as the engine is free.")
    elif FEWEST <= hunks <= MOST and not state.settings.imported:
        st.button(
            "Test each hunk" if not found else "Test each hunk again", key="ablate", shortcut="T",
            on_click=ui_state.noted(
                ui_state.choose, view.id,
                lambda _: Decision(DecisionKind.STUDY, candidate=candidate, study=StudyKind.ABLATION),
            ),
            help="Compiles and tests the change without each hunk, and each hunk alone; times them on a GPU.",
        )  # fmt: skip


def _render(found: AblationTable) -> None:
    heading("Effect of each hunk")
    everything = tuple(range(1, len(found.titles) + 1))
    nothing, whole = found.row(), found.row(*everything)
    rows: list[tuple[object, ...]] = []
    for number, title in enumerate(found.titles, 1):
        without, alone = found.row(*(n for n in everything if n != number)), found.row(number)
        rows.append((
            number, title,
            *_cells(without.spent if without else None, whole.spent if whole else None),
            *_cells(alone.spent if alone else None, nothing.spent if nothing else None),
        ))  # fmt: skip
    header = ("hunk", "lines", "without it", "vs all hunks", "alone", "vs no hunks")
    st.html(table(header, rows, numbers_from=9))
    for name, row in (("Before the change", nothing), ("With all hunks", whole)):
        if row:
            quiet(f"{name}: {_told(row.spent)}")
    quiet("Faster, same and slower compare with the kernel before the change, timed in turns with it.")


def _cells(spent: VariantResult | None, beside: VariantResult | None) -> tuple[object, object]:
    """Write the verdict, and the difference from `beside` in time where both were timed, else registers and spills."""
    if spent is None:
        return "", ""
    shape, kind = ("✓", "passed") if spent.status is Status.PASSED else ("✗", "failed")
    told = escape_html(f"{shape} {_told(spent)}")
    verdict = Html(f'<span class="cg-{kind}" title="{tooltip(spent.message)}">{told}</span>')
    if beside is None:
        return verdict, ""
    if spent.latency_ms is not None and beside.latency_ms is not None:
        return verdict, f"{1000 * (spent.latency_ms - beside.latency_ms):+.3g} µs"
    if spent.registers and beside.registers:
        return (
            verdict,
            f"{spent.registers - beside.registers:+d} registers, {spent.spill_bytes - beside.spill_bytes:+d} B",
        )
    return verdict, ""


def _told(spent: VariantResult) -> str:
    """Write the time where there is one, else the verdict or the registers and spills."""
    if spent.status is not Status.PASSED:
        return lowered(spent.status)
    if spent.latency_ms is not None:
        word = f" {_SHAPES[spent.word]} {lowered(spent.word)}" if spent.word else ""
        slower = listed(shape.workload for shape in regressed(spent.shapes))
        return f"{1000 * spent.latency_ms:.4g} µs{word}{f', regressed on {slower}' if slower else ''}"
    return f"{spent.registers} registers, {spent.spill_bytes} B spilled"
