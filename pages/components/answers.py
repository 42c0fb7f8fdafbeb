"""What was decided in this tab goes to the engine, and what came of it comes back."""

from __future__ import annotations

import time
from functools import partial

from cutegen_core import sessions, views
from cutegen_core.decision import DecisionKind
from cutegen_core.errors import StaleDecisionError
from cutegen_core.session_state import Phase
from cutegen_core.store import Store
from pages.components import address, editor, hunk_view, ui_state
from pages.components.ui_state import Chosen, Submitted

# The engine takes a decision within its poll of 50 ms: the page waits so long, and its first picture is the new one.
ENGINE_ANSWERS_S = 0.5
# And for what takes the engine no time after that, such as opening the next step: the first picture shows it already.
NEXT_STEP_S = 0.1
STAYS = (
    DecisionKind.AUTONOMY, DecisionKind.STOP, DecisionKind.BUDGET, DecisionKind.STANDING, DecisionKind.MEMORY,
    DecisionKind.PROFILE, DecisionKind.ABLATE,
)  # fmt: skip
"""Decisions after which the same step stays on the screen."""
KEPT = "A draft you were typing is still there."


def take_up(store: Store) -> None:
    """At the beginning of every page: what was clicked and decided since."""
    address.agree()
    ui_state.carry_out()
    address.agree()
    _hand_over(store)


def _hand_over(store: Store) -> None:
    """Each decision to the session it was made on. A refusal is said, and what was typed stays.

    The next click ends a page at its next touch of Streamlit's state: what changes there is noted as a click is.
    """
    tab = ui_state.tab()
    while tab.chosen:
        chosen = tab.chosen.pop(0)
        try:
            ticket = sessions.decide(store, chosen.session, chosen.decision, wait_s=ENGINE_ANSWERS_S)
        except StaleDecisionError as refusal:
            tab.last, tab.notice = None, f"{refusal} {KEPT}"
            continue
        tab.last = chosen
        tab.submitted.append(Submitted(chosen.session, ticket, chosen.decision.source or ""))
        tab.clicks.append(partial(_follow, store, chosen))
    ui_state.carry_out()


def _follow(store: Store, chosen: Chosen) -> None:
    if chosen.decision.kind in (DecisionKind.REDIRECT, DecisionKind.REJECT):
        ui_state.put(chosen.text_key, "")
    if chosen.decision.kind not in STAYS and address.get("id") == chosen.session:
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


def unanswered(store: Store, session: str) -> int:
    """Ticket of this tab's first decision on the session that the engine has yet to look at, else 0.

    A late refusal is said; the draft of an edit that was taken is done with.
    """
    tab = ui_state.tab()
    waiting = 0
    for submitted in list(tab.submitted):
        ticket = store.ticket(submitted.ticket)
        if not ticket.taken:
            waiting = waiting or (submitted.ticket if submitted.session == session else 0)
            continue
        tab.submitted.remove(submitted)
        if ticket.refusal:
            tab.last, tab.notice = None, f"{ticket.refusal} {KEPT}"
        elif submitted.source:
            tab.clicks.append(partial(editor.taken, store, submitted.session, submitted.source))
    ui_state.carry_out()
    return waiting
