"""What was clicked and decided in this tab goes where it was meant to, and what came of it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import DecisionKind
from cutegen_core.records.errors import StaleDecisionError
from cutegen_core.session import start
from cutegen_core.trajectory.state import Phase
from cutegen_core.trajectory.store import Store
from pages.components.editor import editor
from pages.components.session import hunk_view
from pages.components.shared import address, ui_state
from pages.components.shared.texts import note
from pages.components.shared.ui_state import Chosen, Click, Submitted

# The engine takes a decision within its poll of 50 ms: the page waits so long, and its first picture is the new one.
ENGINE_ANSWERS_S = 0.5
# And for what takes the engine no time after that, such as opening the next step: the first picture shows it already.
NEXT_STEP_S = 0.1
STAYS = (
    DecisionKind.AUTONOMY, DecisionKind.STOP, DecisionKind.BUDGET, DecisionKind.STANDING, DecisionKind.MEMORY,
    DecisionKind.STUDY,
)  # fmt: skip
"""Decisions after which the same step stays on the screen."""
SENT_FROM_THE_LINE = (DecisionKind.REDIRECT, DecisionKind.REJECT)
KEPT = "What you typed is still there."


def take_up(store: Callable[[], Store]) -> None:
    """At the beginning of every page: clicks and decisions, what came of earlier ones, and what is to be said.

    Args:
        store: opens it, and is called only where something was decided: a page may be there to say that it cannot be.
    """
    address.agree()
    ui_state.carry_out()
    address.agree()
    tab = ui_state.tab()
    if tab.chosen:
        _hand_over(store())
    if tab.submitted:
        _settle(store())
    ui_state.carry_out()
    address.agree()
    with st.container():  # always there, so that what is below keeps its place
        if notice := ui_state.take_notice():
            note("warning", notice)


def unanswered(session: str) -> int:
    """Ticket of this tab's first decision on the session that the engine has yet to look at, else 0."""
    return next((one.ticket for one in ui_state.tab().submitted if one.chosen.session == session), 0)


def _hand_over(store: Store) -> None:
    """Each decision to the session it was made on. A refusal is said, and what was typed stays.

    The next click ends a page at its next touch of Streamlit's state: what changes there is noted as a click is.
    """
    tab = ui_state.tab()
    while tab.chosen:
        chosen = tab.chosen.pop(0)
        try:
            ticket = start.decide(store, chosen.session, chosen.decision, wait_s=ENGINE_ANSWERS_S)
        except StaleDecisionError as refusal:
            tab.last = None
            tab.clicks.append(Click(chosen.page, partial(_refused, chosen, str(refusal))))
            continue
        tab.last = chosen
        tab.submitted.append(Submitted(chosen, ticket))
        if chosen.decision.kind not in STAYS:
            tab.clicks.append(Click(chosen.page, partial(_follow, store, chosen)))


def _follow(store: Store, chosen: Chosen) -> None:
    if address.get("id") == chosen.session and not ui_state.is_elsewhere():
        address.go(step=None, **hunk_view.closed())
        address.agree()
        _await_next_step(store, chosen.session)


def _await_next_step(store: Store, session: str) -> None:
    """Returns at once where a model is asked: that takes long, and the page shows it."""
    deadline = time.monotonic() + NEXT_STEP_S
    while time.monotonic() < deadline:
        view = views.session_view(store, session)
        if not view.working or view.state.phase not in (Phase.IDLE, Phase.GENERATING) or view.state.lost_call:
            return
        time.sleep(0.01)


def _settle(store: Store) -> None:
    """What the engine has taken or refused: the line of an instruction is emptied, the draft of an edit done with."""
    tab = ui_state.tab()
    for submitted in list(tab.submitted):
        ticket = store.ticket(submitted.ticket)
        if not ticket.taken:
            continue
        tab.submitted.remove(submitted)
        chosen = submitted.chosen
        if ticket.refusal:
            tab.last = None
            tab.clicks.append(Click(chosen.page, partial(_refused, chosen, ticket.refusal)))
        elif chosen.decision.source:
            done = partial(editor.taken, store, chosen.session, chosen.decision.source)
            tab.clicks.append(Click(chosen.page, done))
        elif chosen.decision.kind in SENT_FROM_THE_LINE:
            tab.clicks.append(Click(chosen.page, partial(_emptied, chosen)))


def _refused(chosen: Chosen, why: str) -> None:
    """Said with its session where another page is open by now."""
    here = address.get("id") == chosen.session and not ui_state.is_elsewhere()
    ui_state.say(f"{why} {KEPT}" if here else f"Session {chosen.session}: {why}")


def _emptied(chosen: Chosen) -> None:
    """What was typed after it was sent stays."""
    if ui_state.text(chosen.text_key).strip() == chosen.decision.text.strip():
        ui_state.put(chosen.text_key, "")
