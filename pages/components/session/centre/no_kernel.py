"""Fill the centre while the shown step has no kernel: the kernel that it continues from, usually the best one; else the
reference and a skeleton."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Gate
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.event import AnsweredBy, SessionState
from cutegen_core.records.wording import lowered, micros
from cutegen_core.trajectory.state import Step
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
_TRACES = (
    " The playbook first has torch trace the reference: seconds, or half a minute where torch was not used since this "
    "machine started."
)


def render_no_kernel(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Draw why there is no kernel, and what to look at meanwhile."""
    if answer_gate.open_gate(view) and (shown is None or shown.step is view.state.step):
        return  # the answer to review fills the centre
    quiet(_why(view, shown))
    step = _kernel_meanwhile(view, shown)
    if step:
        _render_meanwhile(store, view, views.step_view(store, view.id, step.number))
    elif exchanges.is_at_work(view) or room.reference_is_open():
        _render_beside(view, with_reference=not room.reference_is_open())
    else:
        _render_pair(view)


def _kernel_meanwhile(view: SessionView, shown: StepView | None) -> Step | None:
    """Return the step whose kernel an open step continues from, which Edit & run opens; else the best."""
    base = shown.step.base if shown and shown.step is view.state.open_step else None
    step = view.state.step_of(base) if base else view.state.best_step
    return step if step and step.candidate else None


def _render_meanwhile(store: Store, view: SessionView, kernel: StepView) -> None:
    number, best = kernel.step.number, view.state.best_step
    took = next((row.latency_ms for row in view.steps if row.number == number), None)
    measured = f" · {micros(1000 * took)}" if took is not None else ""
    what = "Best so far" if best and best.number == number else "Continues from"
    heading(f"{what}: step {number} · {kernel.step.idea}{measured}")
    code_pane.render_code(code_tables.plain(kernel.source, line_notes.notes(store, view, kernel)))


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
    if gate is None and not view.working:
        way_on = "Raise the budget" if view.state.status is SessionState.EXHAUSTED else "Resume, or decide below,"
        return f"No kernel: the session is {lowered(view.state.status)}. {way_on} to go on."
    if gate is None or gate.gate is not Gate.INSTRUCTION:
        traces = view.state.settings.answered_by is AnsweredBy.PLAYBOOK and len(view.steps) < 2
        return f"No kernel yet: it appears here as soon as it is proposed.{_TRACES if traces else ''}"
    if view.state.best:
        return (
            "No kernel yet: the proposer needs an instruction. Type below what to try next (or click an idea) and press"
            " Redirect, write the kernel yourself with Edit & run, or accept the best."
        )
    return (
        "No kernel yet, and the proposer has none to offer. Write the first one yourself: Edit & run (E) opens the "
        "skeleton. Or start a session with a model, or with the proposer person and paste a model's reply."
    )
