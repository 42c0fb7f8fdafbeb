"""The stored state and the stored trials, kept in memory: a state is folded on, a trial never changes."""

from __future__ import annotations

import threading
from functools import lru_cache

from cutegen_core.records.errors import StoreError
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import apply

_folded: dict[tuple[str, str], State] = {}
_fold_lock = threading.Lock()


def state_of(store: Store, session: str) -> State:
    """The state, folded on from where the last call left off."""
    key = (str(store.path), session)
    with _fold_lock:
        state = _folded.get(key)
        for recorded in store.events(session, after=state.seq if state else 0):
            state = apply(state, recorded)
        if state is None:
            raise StoreError(f"there is no session {session}; the start page lists them")
        _folded[key] = state
    return state


@lru_cache(maxsize=2048)
def trial_of(store: Store, key: str) -> Trial:
    """A stored trial; blobs never change."""
    return store.record(Trial, key)
