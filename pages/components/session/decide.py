"""Draw the decide bar: every decision the user can make here, with its shortcut, bound to what is shown.

A button that answers a step has a key of that state. Pressed on an outdated page while the next one is on its way, it
does nothing, instead of answering what the user has not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind, Gate, Limit
from cutegen_core.records.event import Role, SessionState
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.views import SessionView, StepView
from pages.components.access import access
from pages.components.compare_present.imported import render_imported_bar
from pages.components.editor import drafts, editor
from pages.components.editor.draft_buttons import render_draft_buttons
from pages.components.roles import answer_gate
from pages.components.session import hunk_view, prompt_gate
from pages.components.shared import address, ui_state
from pages.components.shared.texts import plain_label, quiet

BUDGET_STEP = 20
_SAY_WHAT = "Type an instruction first, then press Redirect."
_SAY_WHY = "Type a reason first, then press Reject."
MORE_TOKENS = 200_000
_HINTS = {
    Gate.PROMPT: "Review, then send the prompt.",
    Gate.ANSWER: "Review the answer.",
    Gate.PLAN: "Review the plan.",
    Gate.DIFF: "Review, then compile.",
    Gate.PROMOTION: "Review the verdict.",
    Gate.REPLY: "Paste the model's reply.",
    Gate.INSTRUCTION: "The proposer needs an instruction:",
}

_PAUSED = {
    SessionState.INTERRUPTED: "Resume tries it again; nothing that was recorded is lost.",
    SessionState.EXHAUSTED: "Raise the budget to go on.",
}
"""What to do where the reason stands above the step already."""


class _Button(NamedTuple):
    key: str
    label: str
    shortcut: str
    enabled: bool
    make: Callable[[str], Decision]
    primary: bool = False
    help: str = ""
    text_key: str = ""
    seen: int = 0


def render_decide(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Draw the bar at the bottom of the page, or for an imported session its replay."""
    with st.bottom:
        if access.looks_on():
            return
        if view.state.settings.imported:
            render_imported_bar(store, view)
            return
        _hint_and_chips(store, view, shown)
        left, middle, right = st.columns([3.2, 4.0, 3.9], vertical_alignment="center")
        with left, st.container(horizontal=True, gap="xsmall"):
            _draw(view.id, _approve(store, view, shown))
            _edit(store, view, shown)
            _keep_hunks(view, shown)
            if view.state.status is SessionState.EXHAUSTED:
                _draw(view.id, _budget(view))
        with middle:
            _instruction(view)
        with right, st.container(horizontal=True, gap="xsmall", horizontal_alignment="right"):
            _more(view, shown)
            _draw(view.id, _stop_or_resume(view))


def _more(view: SessionView, shown: StepView | None) -> None:
    """Draw the decisions about the way on. Where they do not fit, the style sheet makes a menu of them, behind a button
    that only narrow windows show; the next state of the session closes it."""
    st.html(
        f'<div class="cg-more" data-seen="{view.state.meaning_seq}"><input type="checkbox" id="cg-more" '
        'aria-label="More decisions"><label for="cg-more">More</label></div>', width="content",
    )  # fmt: skip
    with st.container(key="bar-more", horizontal=True, gap="xsmall", width="content"):
        for button in (_rewind(view, shown), _branch(view, shown), _accept(view, shown)):
            _draw(view.id, button)


def render_editing(store: Store, view: SessionView, shown: StepView | None, draft: Draft | None) -> None:
    """Draw the bar while the shown step, or without a draft its answer, is edited: the editor's, and Stop."""
    with st.bottom:
        left, right = st.columns([6, 1.4], vertical_alignment="center")
        with left:
            if draft is None:
                answer_gate.render_bar(store, view)
            else:
                editor.render_bar(store, view, draft)
        with right, st.container(horizontal=True, gap="xsmall", horizontal_alignment="right"):
            _show_open_step(view, shown)
            if view.working:
                _draw(view.id, _stop_or_resume(view))


def edits_answer(store: Store, view: SessionView, shown: StepView | None) -> bool:
    """Tell whether an answer of the person's own is written at the shown step."""
    return _shows_open_step(view, shown) and answer_gate.is_edited(store, view)


def _show_open_step(view: SessionView, shown: StepView | None) -> None:
    """Draw the button that leads to the step that waits, where another one is shown."""
    if view.state.gate and shown and view.state.step and shown.step.number != view.state.step.number:
        st.button(
            f"Show step {view.state.step.number}", key="show-open-step", on_click=ui_state.noted(address.drop, "step")
        )


def _edit(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Draw the button that opens the editor; at the answer gate, the field for an answer of one's own."""
    if answer_gate.open_gate(view) and _shows_open_step(view, shown):
        st.button(
            "Edit the answer", key="decide-edit", shortcut="E",
            on_click=ui_state.noted(answer_gate.start, store, view),
        )  # fmt: skip
        return
    st.button(
        "Edit & run", key="decide-edit", shortcut="E", disabled=not _answerable(view),
        on_click=ui_state.noted(drafts.start, store, view, shown),
    )  # fmt: skip


def _shows_open_step(view: SessionView, shown: StepView | None) -> bool:
    state = view.state
    return shown is not None and state.open_step is not None and shown.step.number == state.open_step.number


def _keep_hunks(view: SessionView, shown: StepView | None) -> None:
    """Draw the button that opens the hunks of the shown step, or makes a candidate of the kept ones."""
    if shown is None or not hunk_view.possible(view, shown) or not hunk_view.is_open():
        st.button(
            "Keep hunks", key="decide-hunks", shortcut="K", on_click=ui_state.noted(hunk_view.open_view),
            disabled=shown is None or not hunk_view.possible(view, shown),
            help="Keep only a part of this change, chosen hunk by hunk.",
        )  # fmt: skip
        return
    kept, of = hunk_view.some_kept(shown)
    made = hunk_view.decision(shown, view.state.meaning_seq) if 0 < kept < of else None
    _draw(view.id, _Button(
        "decide-hunks", f"Keep {kept} of {of} hunks" if made else "Keep hunks", "K", made is not None,
        lambda _: made or Decision(DecisionKind.STOP),
        help="Drop a hunk first. To keep all, approve; to keep none, reject." if made is None else "",
        seen=view.state.meaning_seq,
    ))  # fmt: skip


def _hint_and_chips(store: Store, view: SessionView, shown: StepView | None) -> None:
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        quiet(_hint(view))
        _show_open_step(view, shown)
        render_draft_buttons(store, view, shown, answers=_shows_open_step(view, shown))
        chips = views.chips(store, view, shown)
        if chips:
            st.html('<div class="cg-quiet">Ideas:</div>', width="content")
        for number, chip in enumerate(chips):
            st.button(
                plain_label(chip), key=f"chip-{number}", type="tertiary", disabled=not _answerable(view),
                on_click=ui_state.noted(ui_state.replace, _answer_key(view), chip),
                help="Copies this into the instruction field; press Redirect to send it.",
            )  # fmt: skip


def _hint(view: SessionView) -> str:
    state = view.state
    if state.status is SessionState.AWAITING_REVIEW and state.gate:
        step = f"Step {state.step.number}:" if state.step else ""
        said_elsewhere = state.gate.gate is Gate.PROMPT or (state.gate.gate is Gate.REPLY and _role_asked(view))
        said = "" if said_elsewhere else state.gate.note  # the prompt's size, and how to carry it, are shown with it
        return " ".join(filter(None, (step, _asked(view), said)))
    if state.status is SessionState.ACCEPTED:
        return f"Accepted: {state.reason}. Export the kernel, or branch from any step to continue."
    if view.working and state.accepting and (tested := state.step_of(state.accepting)):
        return f"Step {tested.number} is tested once more, with fresh inputs, before it is accepted. Press S to stop."
    if view.working:
        return "Working. Press S to stop."
    return _PAUSED.get(state.status, state.reason)


def _asked(view: SessionView) -> str:
    """Say what the open gate asks for, and of which role."""
    gate, role = view.state.gate, _role_asked(view)
    assert gate is not None
    asked = {
        Gate.PROMPT: f"Review, then send the prompt for {role}.",
        Gate.ANSWER: f"Review the answer of {role}. Redirect lets it answer again.",
        Gate.REPLY: f"Answer for {role}, or paste a model's reply.",
    }
    return asked[gate.gate] if role and gate.gate in asked else _HINTS.get(gate.gate, "")


def _role_asked(view: SessionView) -> Role | None:
    """Return the role that the open gate is about, where the strategy has several."""
    gate = view.state.gate
    return gate.role if gate and views.roles_of(view.state) else None


def _draw(session: str, button: _Button) -> None:
    st.button(
        button.label, key=_bound(button.key, button.seen) if button.seen else button.key,
        shortcut=button.shortcut or None, disabled=not button.enabled,
        type="primary" if button.primary else "secondary",
        on_click=ui_state.noted(ui_state.choose, session, button.make, button.text_key, prompt_gate.EMPTY),
        help=button.help or None,
    )  # fmt: skip


def _bound(key: str, seen: int) -> str:
    return f"{key}-{seen}"


def _instruction(view: SessionView) -> None:
    """Draw the field for an instruction or a reason; Enter redirects."""
    key, seen, enabled = _answer_key(view), view.state.meaning_seq, _answerable(view)
    with st.form("answer", border=False), st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.text_input(
            "Instruction or reason", key=key, label_visibility="collapsed", disabled=not enabled, width="stretch",
            placeholder="What should change next? Or why is this wrong?", persist_state="session",
        )  # fmt: skip
        st.form_submit_button(
            "Redirect", key=_bound("decide-redirect", seen), shortcut="D", disabled=not enabled,
            on_click=ui_state.noted(
                ui_state.choose, view.id, lambda text: Decision(DecisionKind.REDIRECT, seen, text=text), key, _SAY_WHAT
            ),
        )  # fmt: skip
        st.form_submit_button(
            "Reject", key=_bound("decide-reject", seen), shortcut="X",
            disabled=not enabled or view.state.open_step is None,
            on_click=ui_state.noted(
                ui_state.choose, view.id, lambda text: Decision(DecisionKind.REJECT, seen, text=text), key, _SAY_WHY
            ),
        )  # fmt: skip


def _approve(store: Store, view: SessionView, shown: StepView | None) -> _Button:
    """Make the approve button; it is disabled while another step is shown, since an approval is of what is shown."""
    state, gate, step = view.state, view.state.gate, view.state.step
    if prompt_gate.is_open(view):
        seen = _shows_open_step(view, shown)
        return _Button("decide-approve", "Send the prompt", "A", seen, prompt_gate.send(store, view), primary=True,
                       text_key=prompt_gate.text_key(view), seen=state.meaning_seq)  # fmt: skip
    label = f"Approve the {gate.gate}" if gate and view.can_approve else "Approve"
    if gate and gate.gate is Gate.PROMOTION and step is not None:
        label = "Promote" if step.passed else views.way_on(state)
    enabled = view.can_approve and shown is not None and shown.step.candidate == (gate.candidate if gate else None)
    if answer_gate.open_gate(view):  # what is approved is an answer, which no key names: it must be on the screen
        enabled = _shows_open_step(view, shown)

    def make(_: str) -> Decision:
        assert gate is not None
        return Decision(DecisionKind.APPROVE, state.meaning_seq, gate=gate.gate, candidate=gate.candidate)

    return _Button("decide-approve", label, "A", enabled, make, primary=True, seen=state.meaning_seq)


def _budget(view: SessionView) -> _Button:
    """Make the button that raises the budget that is used up; of money and minutes by what was given at first."""
    state, effort = view.state, view.state.settings.effort
    steps, raised = state.max_steps, dict[str, float]()
    match _spent(state):
        case Limit.TOKENS if state.max_tokens is not None:
            raised = {"max_tokens": state.max_tokens + MORE_TOKENS}
            label = f"Raise to {raised['max_tokens']:,} tokens"
        case Limit.MONEY if state.max_cost is not None:
            raised = {"max_cost": state.max_cost + (effort.max_cost or state.max_cost)}
            label = f"Raise to {raised['max_cost']:g} in money"
        case Limit.MINUTES if state.max_minutes is not None:
            raised = {"max_minutes": state.max_minutes + (effort.max_minutes or state.max_minutes)}
            label = f"Raise to {raised['max_minutes']:g} minutes"
        case _:
            steps += BUDGET_STEP
            label = f"Raise to {steps} steps"
    return _Button(
        "decide-budget", label, "M", True,
        lambda _: Decision(DecisionKind.BUDGET, max_steps=steps, **raised), primary=True,  # type: ignore[arg-type]
    )  # fmt: skip


def _spent(state: State) -> Limit:
    """Return the budget that ended the session; older ones did not write down which."""
    if state.spent is not None:
        return state.spent
    of_tokens = state.max_tokens is not None and (state.open_step or state.spent_steps < state.max_steps)
    return Limit.TOKENS if of_tokens else Limit.STEPS


def _rewind(view: SessionView, shown: StepView | None) -> _Button:
    """Make the button that rewinds to the shown step, or from the open step to its base."""
    state = view.state
    target = shown.step.number if shown and shown.step.candidate else 0
    if shown and shown.step is state.open_step:
        base = state.step_of(shown.step.base) if shown.step.base else None
        target = base.number if base else 0
    enabled = bool(state.steps) and (_answerable(view) or state.status is SessionState.ACCEPTED)
    return _Button(
        "decide-rewind", f"Rewind to {target}" if target else "Rewind to the start", "W", enabled,
        lambda _: Decision(DecisionKind.REWIND, state.meaning_seq, step=target),
        help="Continues from that step. Nothing is deleted. Open an older step to rewind to it.",
        seen=state.meaning_seq,
    )  # fmt: skip


def _branch(view: SessionView, shown: StepView | None) -> _Button:
    """Make the button that continues from the shown kernel, or from the base of a step that has none yet; the best
    stays the best."""
    state = view.state
    made = state.step_of(shown.step.base) if shown and shown.step.base and not shown.step.candidate else None
    number = shown.step.number if shown and shown.step.candidate else made.number if made else 0
    enabled = number > 0 and (_answerable(view) or state.status is SessionState.ACCEPTED)
    return _Button(
        "decide-branch", f"Branch {number}" if number else "Branch", "B", enabled,
        lambda _: Decision(DecisionKind.BRANCH, state.meaning_seq, step=number),
        help="Continues from the shown kernel; the best kernel stays the best until another beats it.",
        seen=state.meaning_seq,
    )  # fmt: skip


def _accept(view: SessionView, shown: StepView | None) -> _Button:
    """Make the button that accepts the shown kernel if it passed, else the best one."""
    passed = shown.step.candidate if shown and shown.step.passed else None
    candidate = passed or view.can_accept
    step = view.state.step_of(candidate) if candidate else None
    return _Button(
        "decide-accept", f"Accept {step.number}" if step else "Accept", "F", step is not None and _answerable(view),
        lambda _: Decision(DecisionKind.ACCEPT, view.state.meaning_seq, candidate=candidate),
        help="Tests this kernel once more with fresh inputs, then finishes the session.", seen=view.state.meaning_seq,
    )  # fmt: skip


def _stop_or_resume(view: SessionView) -> _Button:
    if view.state.status in (SessionState.STOPPED, SessionState.INTERRUPTED):
        return _Button("decide-resume", "Resume", "G", True, lambda _: Decision(DecisionKind.RESUME), primary=True)
    stoppable = bool(view.state.studies_wanted) or view.working or view.state.status is SessionState.AWAITING_REVIEW
    return _Button("decide-stop", "Stop", "S", stoppable, lambda _: Decision(DecisionKind.STOP))


def _answerable(view: SessionView) -> bool:
    return not view.working and view.state.status is not SessionState.ACCEPTED


def _answer_key(view: SessionView) -> str:
    return ui_state.field_key(f"answer-{view.id}")
