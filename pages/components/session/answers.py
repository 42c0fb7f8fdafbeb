"""Submit this tab's decisions to their sessions, and take back the results."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from cutegen_core import views
from cutegen_core.records.decision import DecisionKind
from cutegen_core.session import start
from cutegen_core.trajectory.state import Phase
from cutegen_core.trajectory.store import Store
from pages.components.editor import drafts
from pages.components.roles import answer_field
from pages.components.session import hunk_view
from pages.components.shared import address, first_turn, ui_state
from pages.components.shared.texts import escape_html, note
from pages.components.shared.ui_state import Chosen, Click, Submitted

# The engine takes a decision within its poll of 50 ms; the page waits for it, so that it draws the new state at once.
ENGINE_ANSWERS_S = 0.5
# Wait also for what the engine does at once after that, such as opening the next step.
NEXT_STEP_S = 0.1
STAYS = (
    DecisionKind.AUTONOMY, DecisionKind.STOP, DecisionKind.BUDGET, DecisionKind.STANDING, DecisionKind.MEMORY,
    DecisionKind.STUDY,
)  # fmt: skip
"""Decisions after which the same step stays on the screen."""
SENT_FROM_THE_LINE = (DecisionKind.REDIRECT, DecisionKind.REJECT)
KEPT = "Your text is still there."


def take_up(store: Callable[[], Store]) -> DeltaGenerator:
    """Carry out clicks, submit decisions, settle earlier ones and show messages; every page begins with it.

    A decision is shown as sent as soon as it is in the store: the engine may be slow to take it, and the page to draw
    what came of it. A drawn page passes the returned place to `drawn`.

    Args:
        store: opens the store; called only for a decision, since a page must also work when the store does not open.
    """
    with st.container():  # always there, so that everything below keeps its place
        sent, message = st.empty(), st.container()
    address.agree()
    ui_state.carry_out()
    address.agree()
    tab = ui_state.tab()
    if tab.chosen:
        first_turn.take()
        _hand_over(store(), sent)
        ui_state.carry_out()
    if tab.submitted:
        _settle(store())
    ui_state.carry_out()
    address.agree()
    with message:
        for kind, text in ui_state.take_notices().items():
            note(kind, text)
    return sent


def drawn(sent: DeltaGenerator) -> None:
    """Go on saying that a decision is sent while the engine has not looked at it; every page that is drawn ends so."""
    if ui_state.tab().submitted:
        _show_sent(sent, "waits")


def unanswered(session: str) -> int:
    """Return the ticket of this tab's first decision on the session that the engine has not taken, else 0."""
    return next((one.ticket for one in ui_state.tab().submitted if one.chosen.session == session), 0)


def _hand_over(store: Store, sent: DeltaGenerator) -> None:
    """Submit each decision to its session, and note that its answer is to be waited for.

    The next click ends a page at its next touch of Streamlit's state or of the page, so what is to be done after that
    is noted as a click before.
    """
    tab = ui_state.tab()
    while tab.chosen:
        chosen = tab.chosen.pop(0)
        submitted = Submitted(chosen, start.submit(store, chosen.session, chosen.decision))
        tab.last = chosen
        tab.submitted.append(submitted)
        tab.clicks.append(Click(chosen.page, partial(_answered, store, submitted)))
    _show_sent(sent)


def _show_sent(sent: DeltaGenerator, state: Literal["goes", "waits"] = "goes") -> None:
    kinds = ", ".join(one.chosen.decision.kind for one in ui_state.tab().submitted)
    sent.html(f'<div class="cg-sent cg-{state}" role="status">Sent: {escape_html(kinds)}</div>')


def _answered(store: Store, submitted: Submitted) -> None:
    """Wait briefly for the engine to take a decision, and show the step it leads to. On a refusal that step stays."""
    chosen = submitted.chosen
    ticket = start.await_answer(store, submitted.ticket, ENGINE_ANSWERS_S)
    here = address.get("id") == chosen.session and not ui_state.is_elsewhere()
    if here and not ticket.refusal and chosen.decision.kind not in STAYS:
        address.go(step=None, **hunk_view.closed())
        address.agree()
        _await_next_step(store, chosen.session)


def _await_next_step(store: Store, session: str) -> None:
    """Wait briefly for the next step; return at once where a model is asked, which takes long and shows on the page."""
    deadline = time.monotonic() + NEXT_STEP_S
    while time.monotonic() < deadline:
        view = views.session_view(store, session)
        if not view.working or view.state.phase not in (Phase.IDLE, Phase.GENERATING) or view.state.lost_call:
            return
        time.sleep(0.01)


def _settle(store: Store) -> None:
    """Finish the decisions that the engine has taken or refused: empty the instruction's field, forget the draft."""
    tab = ui_state.tab()
    for submitted in list(tab.submitted):
        ticket = store.ticket(submitted.ticket)
        if not ticket.taken:
            continue
        tab.submitted.remove(submitted)
        chosen = submitted.chosen
        if not ticket.refusal and chosen.decision.kind not in STAYS:
            drafts.forget_all(store, answer_field.name_at(chosen.session, chosen.decision.seen))
        if ticket.refusal:
            tab.last = None
            tab.clicks.append(Click(chosen.page, partial(_refused, store, chosen, ticket.refusal)))
        elif chosen.decision.source:
            decision = chosen.decision
            done = partial(drafts.taken, store, chosen.session, decision.candidate or "", decision.source or "")
            tab.clicks.append(Click(chosen.page, done))
        elif chosen.decision.kind in SENT_FROM_THE_LINE:
            tab.clicks.append(Click(chosen.page, partial(_emptied, chosen)))


def _refused(store: Store, chosen: Chosen, why: str) -> None:
    """Say why a decision was refused, and name its session where another page is open by now; show a refused edit."""
    here = address.get("id") == chosen.session and not ui_state.is_elsewhere()
    edited = chosen.decision.candidate if chosen.decision.kind is DecisionKind.EDIT else None
    step = views.session_view(store, chosen.session).state.step_of(edited) if here and edited else None
    if step is not None:
        address.go(step=str(step.number))
    ui_state.say(f"{why} {KEPT}" if here else f"Session {chosen.session}: {why}")


def _emptied(chosen: Chosen) -> None:
    """Empty the field of a sent instruction, unless it was typed in since."""
    if ui_state.text(chosen.text_key).strip() == chosen.decision.text.strip():
        ui_state.replace(chosen.text_key, "")
