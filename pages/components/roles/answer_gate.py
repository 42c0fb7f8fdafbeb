"""Draw the answer gate: what a role answered, and the field for the person's own answer in its place."""

from __future__ import annotations

import streamlit as st

from cutegen_core.problems import suite
from cutegen_core.propose.replies.parsing import UnparsedReply, parse_reply
from cutegen_core.records.decision import Gate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.event import Role
from cutegen_core.records.problem import Problem, list_sizes
from cutegen_core.trajectory.state import OpenGate
from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.editor import drafts
from pages.components.roles import answer_field
from pages.components.shared import code_pane, code_tables, ui_state
from pages.components.shared.code_tables import Notes
from pages.components.shared.texts import escape_html, heading, note, quiet, show_hidden, table

ANSWER_PX = 420
EMPTY = "The answer is empty. Close it to keep the role's own."
_FORMS = {
    Role.TESTING: "Only data: a WORKLOADS = {...} literal; it is read, never run.",
    Role.PLANNING: "Four lines: Idea, Shapes, Effect, Risk; or DONE with the reason.",
    Role.CODING: "A whole kernel file, or SEARCH/REPLACE blocks for the current one.",
    Role.PROFILING: "Free text: the planning role reads it.",
}


def open_gate(view: SessionView) -> OpenGate | None:
    """Return the answer gate if the session waits there."""
    gate = view.state.gate
    return gate if gate is not None and gate.gate is Gate.ANSWER else None


def is_edited(store: Store, view: SessionView) -> bool:
    """Tell whether the person writes an answer of their own here: there is a draft, and this tab has not closed it."""
    gate = open_gate(view)
    if gate is None or access.role() is not access.AccessRole.OWNER:
        return False
    name = answer_field.name_of(view, gate)
    return store.draft(name) is not None and ui_state.held(_open_key(name), bool) is not False


def start(store: Store, view: SessionView) -> None:
    """Open the field on the draft if there is one, else on the role's answer."""
    gate = open_gate(view)
    if gate is None:
        return
    name = answer_field.name_of(view, gate)
    if store.draft(name) is None:
        store.save_draft(name, Draft(str(gate.seq), _answer(store, view)))
    ui_state.put(_open_key(name), True)


def form_of(role: Role | None) -> str:
    """Say in which form this role answers, "" where any text will do."""
    return _FORMS.get(role, "") if role else ""


def render_answer_gate(store: Store, view: SessionView) -> None:
    """Draw the answer that waits, or the field that takes its place."""
    gate = open_gate(view)
    if gate is None:
        return
    if is_edited(store, view):
        _render_own(store, view, gate)
        return
    answer = _answer(store, view)
    heading(f"{gate.role} · answer to review")
    if gate.role is Role.TESTING:
        _render_workloads(view.problem, answer)
    if gate.role is Role.CODING and _render_change(answer_field.base_of(store, view), answer):
        return
    st.code(show_hidden(answer), language=None, wrap_lines=True, height=_height(answer))


def _render_own(store: Store, view: SessionView, gate: OpenGate) -> None:
    heading(f"{gate.role} · your answer instead")
    answer_field.render_field(store, view, gate, f"Your answer for {gate.role}", height=ANSWER_PX)
    quiet(form_of(gate.role))


def render_bar(store: Store, view: SessionView) -> None:
    """Draw, in place of the decisions, what can be done with the answer that is being written."""
    gate = open_gate(view)
    assert gate is not None
    name = answer_field.name_of(view, gate)
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(
            "Use this answer", key="own-use", type="primary", shortcut="Ctrl+Enter",
            on_click=answer_field.submitting(store, view, gate, EMPTY),
        )  # fmt: skip
        st.button(
            "Close, keep the draft", key="own-close", on_click=ui_state.noted(ui_state.put, _open_key(name), False)
        )
        st.button("Discard", key="own-discard", help="Can be undone", on_click=ui_state.noted(_discard, store, name))


def can_restore(store: Store, view: SessionView) -> bool:
    """Tell whether an answer of the person's was discarded here and none was begun since."""
    gate = open_gate(view)
    return gate is not None and drafts.is_aside(store, answer_field.name_of(view, gate))


def restore(store: Store, view: SessionView) -> None:
    """Bring the discarded answer back and open it; a click."""
    gate = open_gate(view)
    if gate is not None:
        drafts.bring_back(store, answer_field.name_of(view, gate))
        start(store, view)


def _discard(store: Store, name: str) -> None:
    drafts.set_aside(store, name)
    ui_state.forget(_open_key(name))
    answer_field.forget(name)


def _open_key(name: str) -> str:
    return f"open-{name}"


def _answer(store: Store, view: SessionView) -> str:
    """Return the answer under review."""
    step = view.state.open_step
    call = step.answered if step else None
    return store.text(call.answer.reply) if call and call.answer else ""


def _render_workloads(problem: Problem, answer: str) -> None:
    """Draw what the answer adds as a table, or why it cannot be read."""
    try:
        whole = suite.with_suite(problem, answer)
    except ProblemError as error:
        note("error", str(error))
        return
    added = suite.added_workloads(whole, problem)
    rows: list[tuple[object, ...]] = [
        (w.name, w.role, list_sizes(w.sizes), w.values.replace("_", " ")) for w in whole.workloads if w.name in added
    ]
    st.html(table(("workload added", "role", "sizes", "values"), rows, numbers_from=9))


def _render_change(base: str, answer: str) -> bool:
    """Draw what the answer changes as a diff, and its words; return False where it holds no usable kernel."""
    parsed = parse_reply(answer, base or None)
    if isinstance(parsed, UnparsedReply):
        note("error", parsed.reason)
        return False
    if parsed.plan.strip():
        st.html(f'<div class="cg-plan">{escape_html(parsed.plan.strip())}</div>')
    st.html(code_pane.change_line(base, parsed.source))
    code_pane.render_code(code_tables.inline(base, parsed.source, Notes()))
    return True


def _height(text: str) -> int:
    return min(ANSWER_PX, 40 + 19 * (text.count("\n") + 1 + len(text) // 90))
