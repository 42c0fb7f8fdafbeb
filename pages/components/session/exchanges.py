"""Show the exchanges with a model: the reply as it streams in, all exchanges of a step, and the diagnosis."""

from __future__ import annotations

import time
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.trial import Stage
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.state import Exchange, Phase, State
from cutegen_core.trajectory.store import Store
from cutegen_core.views import CallView, SessionView, StepView
from pages.components.shared import address, ui_state
from pages.components.shared.texts import escape_html, heading, note, quiet, show_hidden

STREAM_POLL_S = 0.4
STREAM_HEIGHT_PX = 420
STREAM_CHARACTERS = 60_000
"""A longer reply shows only its end while it streams, and all of it afterwards."""


# ---- while a call runs


def call_in_progress(state: State) -> Exchange | None:
    """Return the call that waits for its reply, if there is one."""
    step = state.open_step
    return step.calls[-1] if step and state.lost_call and state.running_stage is not None else None


def is_at_work(view: SessionView) -> bool:
    """Tell whether a proposer works on the next kernel."""
    return view.working and view.state.phase in (Phase.IDLE, Phase.GENERATING)


def render_stream(store: Store, view: SessionView) -> None:
    """Draw the reply as it arrives, in a fragment that redraws itself."""
    if is_at_work(view):
        st.fragment(_stream, run_every=STREAM_POLL_S)(store, view.id)


def _stream(store: Store, session: str) -> None:
    state = views.session_view(store, session).state
    call, text = call_in_progress(state), store.live(session)
    if call is None:
        _long_work(state, text)
        return
    elapsed = max(0.0, time.time() - state.running_since)
    arrived = f"about {estimate_tokens(text):,} tokens so far" if text else "waiting for the first token"
    heading(f"{call.role} · {call.model} is writing")
    quiet(f"{elapsed:.0f} s · {arrived} · {call.reserved_tokens:,} tokens reserved in the budget · press S to stop")
    with st.container(key="stream-pane", height=STREAM_HEIGHT_PX, border=True, autoscroll=True):
        st.text(show_hidden(text[-STREAM_CHARACTERS:]) or "…")


def _long_work(state: State, text: str) -> None:
    """Draw what a check of a suite, or another long work of the proposer, has done so far."""
    if not text or state.running_stage is not Stage.GENERATE:
        return
    heading("At work · what was done so far")
    with st.container(key="stream-pane", height=STREAM_HEIGHT_PX, border=True, autoscroll=True):
        st.html(f'<pre class="cg-log">{escape_html(text[-STREAM_CHARACTERS:])}</pre>')


# ---- when it is over


def render_exchanges(shown: StepView) -> None:
    """Draw every prompt of this step and its reply, unchanged; with `?role=` in the address, that role's only."""
    if not shown.calls:
        quiet("No prompt: this kernel was not written by a model.")
    calls = _chosen(shown)
    for number, call in calls:
        dropped = f" · not used: {call.dropped}" if call.dropped else ""
        heading(f"{number} · {call.role} · {_who(call)} · {_spent(call)}{dropped}")
        with st.expander(f"Prompt, about {estimate_tokens(call.prompt):,} tokens", expanded=len(calls) == 1):
            st.code(show_hidden(call.prompt), language=None, wrap_lines=True, height=320)
        if call.answer and call.answer.error:
            note("error", call.answer.error)
        if call.reply:
            st.code(show_hidden(call.reply), language=None, wrap_lines=True, height=_height(call.reply))
        elif call.answer is None:
            quiet("No reply yet.")
        elif not call.answer.error:
            quiet("The reply was empty.")


def _chosen(shown: StepView) -> list[tuple[int, CallView]]:
    """Return the numbered exchanges to draw, with a button for all where the address names one role of several."""
    calls, role = list(enumerate(shown.calls, 1)), address.get("role")
    own = [(number, call) for number, call in calls if call.role == role]
    if not own or len(own) == len(calls):
        return calls
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        quiet(f"{counted(len(own), 'exchange')} of {role}, of {len(calls)} in this step.")
        st.button("Show all", key="exchanges-all", on_click=ui_state.noted(address.drop, "role"))
    return own


def _who(call: CallView) -> str:
    by = call.answer.by if call.answer else None
    return call.model or ("the playbook" if by is AnsweredBy.PLAYBOOK else "you, or your own model")


def _spent(call: CallView) -> str:
    answer = call.answer
    if answer is None:
        return "running"
    if not call.model:
        return "no tokens counted"
    about = "about " if answer.estimated else ""
    ended = "" if answer.finish == "stop" else f" · finish reason: {answer.finish}"
    counted = f"{about}{answer.prompt_tokens:,} + {answer.completion_tokens:,} tokens"
    return f"{counted} · {answer.seconds:.1f} s{ended}"


def _height(text: str) -> int:
    return min(320, 40 + 19 * (text.count("\n") + 1 + len(text) // 70))


# ---- why something failed


class Diagnosis(NamedTuple):
    """A model's diagnosis of the failure of step `failed`, made in step `mends`."""

    failed: int
    mends: int
    model: str
    text: str


def diagnosis_of(store: Store, view: SessionView, shown: StepView) -> Diagnosis | None:
    """Return the diagnosis that the shown step begins with, else the one of its own failure."""
    own = _diagnosed(store, view, shown.step.number)
    return own if own and shown.trial is None else _diagnosed(store, view, shown.step.number + 1)


def failed_step(store: Store, view: SessionView, shown: StepView) -> StepView:
    """Return the step whose evidence to show: the shown one, or the failure it repairs while it has none."""
    mends = shown.step.repair and shown.trial is None and shown.step.number > 1
    return views.step_view(store, view.id, shown.step.number - 1) if mends else shown


def _diagnosed(store: Store, view: SessionView, number: int) -> Diagnosis | None:
    step = next((s for s in view.state.steps if s.number == number and s.repair), None)
    call = next((c for c in step.calls if c.role is Role.DIAGNOSIS and c.answer), None) if step else None
    if step is None or call is None or call.answer is None or call.answer.error:
        return None
    return Diagnosis(number - 1, number, call.model or "your own model", store.text(call.answer.reply))


def render_diagnosis(found: Diagnosis | None) -> None:
    """Draw the model's diagnosis beside the evidence it explains."""
    if found is None:
        return
    said = f"Diagnosis of step {found.failed} by {found.model}, made for step {found.mends}"
    st.html(f'<div class="cg-diagnosis"><b>{escape_html(said)}</b>\n{escape_html(found.text.strip())}</div>')
