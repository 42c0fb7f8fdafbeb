"""Read stored states and trials through bounded caches: a state is folded on, a trial never changes.

Lists of sessions read summaries, which are stored with the events (`append`) and made here where one is missing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import Event, Recorded
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.old_edits import with_names
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.summaries import SessionSummary, dump, load, summarise
from cutegen_core.trajectory.transitions import fold, fold_on

STATES_KEPT = 512
TRIALS_KEPT = 2048

_folded: OrderedDict[tuple[Store, str], State] = OrderedDict()
_lock = threading.Lock()
"""Held for looks into the cache only, never while SQLite reads or events are folded."""


def state_of(store: Store, session: str) -> State:
    """Return the state of a session; StoreError when the store has no such session."""
    key = (store, session)  # not its path: another file may lie there since
    with _lock:
        known = _folded.get(key)
    events = with_names(store.events(session, after=known.seq if known else 0), store.text)
    if known is None and not events:
        raise StoreError(f"there is no session {session}; the start page lists them")
    state = fold_on(known, events) if known else fold(events)
    _keep(key, state)
    return state


def append(store: Store, session: str, state: State, events: Sequence[Event], *, taking: int | None = None) -> State:
    """Append events to a session in this state; return the state after them, whose summary is stored with them.

    Args:
        taking: id of the inbox entry that these events answer.

    Raises:
        LeaseError: somebody else has appended meanwhile.
    """
    reached = state

    def summary(recorded: Sequence[Recorded]) -> str:
        nonlocal reached
        reached = fold_on(state, recorded)
        return dump(reached)

    store.append(session, events, after=state.seq, taking=taking, summarise=summary)
    return reached


def summary_of(store: Store, session: str) -> SessionSummary:
    """Return the summary of a session; StoreError when it cannot be read, or the store has no such session."""
    found = store.listed(session)
    if found and found[0].summary:
        return load(found[0].summary)
    state = state_of(store, session)
    store.put_summaries({session: state})
    return summarise(state)


def every_summary(store: Store) -> dict[str, SessionSummary | StoreError]:
    """Return the summaries of all sessions, newest first, or why a session cannot be read."""
    found: dict[str, SessionSummary | StoreError] = {}
    made: dict[str, State] = {}
    for session, text in store.listed():
        try:
            if not text:
                made[session] = state_of(store, session)
            found[session] = load(text) if text else summarise(made[session])
        except StoreError as error:
            found[session] = error
    store.put_summaries(made)
    return found


def _keep(key: tuple[Store, str], state: State) -> None:
    """Keep the state, unless another thread has folded further; drop the one that nobody asked for longest."""
    with _lock:
        kept = _folded.get(key)
        if kept is None or kept.seq < state.seq:
            _folded[key] = state
        _folded.move_to_end(key)
        while len(_folded) > STATES_KEPT:
            _folded.popitem(last=False)


@lru_cache(maxsize=TRIALS_KEPT)
def trial_of(store: Store, key: str) -> Trial:
    """Return a stored trial."""
    return store.record(Trial, key)
