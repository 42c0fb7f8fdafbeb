"""What goes to a model and what comes back: the text streaming in, the exchanges of a step, and the diagnosis."""

from __future__ import annotations

import time
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.propose.llm.budget import estimate_tokens
from cutegen_core.records.event import Role
from cutegen_core.trajectory.state import Exchange, Phase, State
from cutegen_core.trajectory.store import Store
from cutegen_core.views import CallView, SessionView, StepView
from pages.components.shared.texts import escaped, heading, note, quiet, visible

STREAM_POLL_S = 0.4
STREAM_HEIGHT_PX = 420
STREAM_CHARACTERS = 60_000
"""Only the end of a longer text is shown while it arrives; all of it once it has."""


# ---- while a call runs


def call_in_progress(state: State) -> Exchange | None:
    """The call whose answer is on its way."""
    step = state.open_step
    return step.calls[-1] if step and state.lost_call and state.running_stage is not None else None


def render_stream(store: Store, view: SessionView) -> None:
    """The text as it arrives, in a fragment that redraws itself and that a call begins and ends in."""
    if view.working and view.state.phase in (Phase.IDLE, Phase.GENERATING):
        st.fragment(_stream, run_every=STREAM_POLL_S)(store, view.id)


def _stream(store: Store, session: str) -> None:
    state = views.session_view(store, session).state
    call = call_in_progress(state)
    if call is None:
        return
    text = store.live(session)
    elapsed = max(0.0, time.time() - state.running_since)
    arrived = f"about {estimate_tokens(text):,} tokens so far" if text else "waiting for the first words"
    heading(f"{call.role} · {call.model} is writing")
    quiet(f"{elapsed:.0f} s · {arrived} · {call.reserved_tokens:,} tokens reserved in the budget · Stop is S")
    with st.container(key="stream-pane", height=STREAM_HEIGHT_PX, border=True, autoscroll=True):
        st.text(visible(text[-STREAM_CHARACTERS:]) or "…")


# ---- when it is over


def render_exchanges(shown: StepView) -> None:
    """Every question to a model in this step, and what came back, as they were."""
    if not shown.calls:
        quiet("No prompt: this kernel was not written by a model.")
    for number, call in enumerate(shown.calls, 1):
        heading(f"{number} · {call.role} · {call.model or 'carried by you'} · {_spent(call)}")
        with st.expander(f"Prompt, about {estimate_tokens(call.prompt):,} tokens", expanded=len(shown.calls) == 1):
            st.code(visible(call.prompt), language=None, wrap_lines=True, height=320)
        if call.answer and call.answer.error:
            note("error", call.answer.error)
        if call.reply:
            st.code(visible(call.reply), language=None, wrap_lines=True, height=_height(call.reply))
        elif call.answer is None:
            quiet("No reply yet.")
        elif not call.answer.error:
            quiet("The reply was empty.")


def _spent(call: CallView) -> str:
    answer = call.answer
    if answer is None:
        return "running"
    if not call.model:
        return "no tokens counted"
    about = "about " if answer.estimated else ""
    ended = "" if answer.finish == "stop" else f" · ended: {answer.finish}"
    counted = f"{about}{answer.prompt_tokens:,} + {answer.completion_tokens:,} tokens"
    return f"{counted} · {answer.seconds:.1f} s{ended}"


def _height(text: str) -> int:
    return min(320, 40 + 19 * (text.count("\n") + 1 + len(text) // 70))


# ---- why something failed


class Diagnosis(NamedTuple):
    """What a model says about a failure: of step `failed`, asked in step `mends`."""

    failed: int
    mends: int
    model: str
    text: str


def diagnosis_of(store: Store, view: SessionView, shown: StepView) -> Diagnosis | None:
    """The diagnosis that belongs to the shown step: the one it begins with, else the one of its own failure."""
    own = _diagnosed(store, view, shown.step.number)
    return own if own and shown.trial is None else _diagnosed(store, view, shown.step.number + 1)


def failed_step(store: Store, view: SessionView, shown: StepView) -> StepView:
    """The step whose evidence is to be read: the shown one, or while it has none the failure it mends."""
    mends = shown.step.repair and shown.trial is None and shown.step.number > 1
    return views.step_view(store, view.id, shown.step.number - 1) if mends else shown


def _diagnosed(store: Store, view: SessionView, number: int) -> Diagnosis | None:
    step = next((s for s in view.state.steps if s.number == number and s.repair), None)
    call = next((c for c in step.calls if c.role is Role.DIAGNOSIS and c.answer), None) if step else None
    if step is None or call is None or call.answer is None or call.answer.error:
        return None
    return Diagnosis(number - 1, number, call.model or "a model of your own", store.text(call.answer.reply))


def render_diagnosis(found: Diagnosis | None) -> None:
    """The model's words, beside the evidence they are about."""
    if found is None:
        return
    said = f"Diagnosis of step {found.failed}, by {found.model} before step {found.mends} was written"
    st.html(f'<div class="cg-diagnosis"><b>{escaped(said)}</b>\n{escaped(found.text.strip())}</div>')
