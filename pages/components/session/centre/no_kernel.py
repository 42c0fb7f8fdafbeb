"""Fill the centre while the shown step has no kernel: the best kernel so far, else the reference and a skeleton."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Gate
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.wording import micros
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.editor.first_text import skeleton
from pages.components.editor.shapes import shapes
from pages.components.roles import answer_gate
from pages.components.session import exchanges
from pages.components.session.centre import line_notes, room
from pages.components.shared import code_pane, code_tables
from pages.components.shared.code_tables import Notes
from pages.components.shared.texts import heading, quiet

POLL_S = 0.5


def render_no_kernel(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Draw why there is no kernel, and what to look at meanwhile."""
    if answer_gate.open_gate(view) and (shown is None or shown.step is view.state.step):
        return  # the answer to review fills the centre
    quiet(_why(view, shown))
    step = view.state.best_step
    if step and step.candidate:
        _render_best(store, view, views.step_view(store, view.id, step.number))
    elif exchanges.is_at_work(view) or room.reference_is_open():
        _render_beside(view, with_reference=not room.reference_is_open())
    else:
        _render_pair(view)


def _render_best(store: Store, view: SessionView, best: StepView) -> None:
    took = next((row.latency_ms for row in view.steps if row.number == best.step.number), None)
    measured = f" · {micros(1000 * took)}" if took is not None else ""
    heading(f"Best so far: step {best.step.number} · {views.idea_of(store, best.step)}{measured}")
    code_pane.render_code(code_tables.plain(best.source, line_notes.notes(store, view, best)))


def _render_beside(view: SessionView, *, with_reference: bool) -> None:
    if with_reference:
        room.draw_reference(view)
    else:
        _render_skeleton(view)


def _render_pair(view: SessionView) -> None:
    left, right = st.columns(2, gap="small")
    with left:
        room.draw_reference(view)
    with right:
        _render_skeleton(view)


def _render_skeleton(view: SessionView) -> None:
    """Draw a kernel file without a body for this problem's tensors, as soon as the reference has told their shapes."""
    heading("Skeleton with the right signature · E opens it in the editor")
    st.fragment(_skeleton, run_every=None if shapes(view.problem).done() else POLL_S)(view)


def _skeleton(view: SessionView) -> None:
    asked = shapes(view.problem)
    if not asked.done():
        quiet("● Getting the signature from the reference …")
        return
    try:
        text = skeleton(view.problem)
    except CutegenError as error:
        quiet(f"No skeleton: the reference does not tell its signature: {error}")
        return
    code_pane.render_code(code_tables.plain(text, Notes()))


def _why(view: SessionView, shown: StepView | None) -> str:
    """Say why there is no kernel, and what to do."""
    if shown is not None and shown.step.outcome:
        return "This step ended before a kernel was written."
    gate = view.state.gate
    if gate is None or gate.gate is not Gate.INSTRUCTION:
        return "No kernel yet: it appears here as soon as it is proposed."
    if view.state.best:
        return (
            "No kernel yet: the proposer needs an instruction. Type below what to try next (or click an idea) and press"
            " Redirect, write the kernel yourself with Edit & run, or accept the best."
        )
    return (
        "No kernel yet, and the proposer has none to offer. Write the first one yourself: Edit & run (E) opens the "
        "skeleton. Or start a session with a model, or with the proposer person and paste a model's reply."
    )
