"""Read stored states and trials through bounded caches: a state is folded on, a trial never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import lru_cache

from cutegen_core.records.errors import StoreError
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import apply

STATES_KEPT = 512
TRIALS_KEPT = 2048

_folded: OrderedDict[tuple[Store, str], State] = OrderedDict()
_lock = threading.Lock()
"""Held for looks into the cache only, never while SQLite reads or events are folded."""


def state_of(store: Store, session: str) -> State:
    """Return the state of a session; StoreError when the store has no such session."""
    key = (store, session)  # not its path: another file may lie there since
    with _lock:
        state = _folded.get(key)
    for recorded in store.events(session, after=state.seq if state else 0):
        state = apply(state, recorded)
    if state is None:
        raise StoreError(f"there is no session {session}; the start page lists them")
    _keep(key, state)
    return state


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
