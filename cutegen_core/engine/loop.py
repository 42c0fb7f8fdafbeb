"""Poll the store: hand sessions to a small pool of threads, one session never to two, and jobs to their slot."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from cutegen_core.engine import single
from cutegen_core.engine.checks import Checks
from cutegen_core.engine.job_slot import JobSlots
from cutegen_core.engine.old_exports import OldExports
from cutegen_core.machine import workspace
from cutegen_core.records.errors import CutegenError, LeaseError, StoreError, StoreGoneError
from cutegen_core.records.event import SessionState, StateChanged
from cutegen_core.records.job import JobKind
from cutegen_core.session import studies
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.read import append, state_of, summary_of
from cutegen_core.trajectory.state import WORKING
from cutegen_core.trajectory.store import ENGINE_LINE, Store
from cutegen_core.wiring import Tools

IDLE_EXIT_S = single.CLIENT_GONE_S
POLL_S = 0.05
SESSIONS_AT_ONCE = 8
"""So many sessions are attended to; of their trials fewer run at once, in turn (`wiring`)."""
JOBS_AT_ONCE = {JobKind.GNN: 1, JobKind.EXPORT: 2, JobKind.BENCH: 1}
SETTLED_S = 10.0
"""An engine that is wanted for so long is likely to compile: what ends earlier does not pay for a warm compiler."""
_STORE_PAUSE_S = 1.0
_LONGEST_STORE_PAUSE_S = 30.0

_log = logging.getLogger(__name__)


class _Trouble(NamedTuple):
    """A failure of the store, and the monotonic time before which it is not tried again."""

    reason: str
    pause_s: float
    until: float

    def over(self) -> bool:
        return time.monotonic() >= self.until


class Engine:
    """Run the sessions and jobs of a store until nothing runs and no client is left.

    Args:
        may_serve: whether this process still is the workspace's engine.
    """

    def __init__(self, store: Store, tools: Tools, may_serve: Callable[[], bool] = lambda: True) -> None:
        self._store = store
        self._tools = tools
        self._may_serve = may_serve
        self._pool = ThreadPoolExecutor(SESSIONS_AT_ONCE, thread_name_prefix="session")
        self._slots = [JobSlots(store, kind, count) for kind, count in JOBS_AT_ONCE.items()]
        self._old_exports = OldExports(store)
        self._checks = Checks(tools)
        self._ended = threading.Event()
        self._active: dict[str, Future[None]] = {}
        self._works: dict[str, bool] = {}
        self._left_alone: set[str] = set()
        self._troubles: dict[str, _Trouble] = {}

    def serve(self) -> None:
        """Poll until idle. An error of one session, or a passing error of the store, stops no other session."""
        threading.Thread(target=self._warm, daemon=True, name="warm").start()
        try:
            self._poll()
        finally:
            self._ended.set()
            self._checks.close()
            for slots in self._slots:
                slots.close()

    def _poll(self) -> None:
        last_use = time.monotonic()
        trouble = ""
        while time.monotonic() - last_use < IDLE_EXIT_S:
            try:
                if not self._may_serve():
                    _log.error("the lock of %s was deleted; leaving, so that no two engines serve it", self._store.path)
                    break
                if not self._store.is_current():
                    _log.error("a newer workbench has migrated the store %s; its own engine goes on", self._store.path)
                    break
                self._dispatch()
                for slots in self._slots:
                    slots.dispatch()
                self._old_exports.look()
                trouble = ""
            except StoreGoneError as error:
                _log.error("%s", error)
                break
            except Exception as error:  # noqa: BLE001 - thread boundary: the store may work again at the next poll
                if str(error) != trouble:
                    _log.exception("the store %s cannot be read; trying again", self._store.path)
                trouble = str(error)
                time.sleep(_STORE_PAUSE_S)
            if self._is_busy() or single.client_age_s() < IDLE_EXIT_S:
                last_use = time.monotonic()
            time.sleep(POLL_S)

    def _is_busy(self) -> bool:
        return bool(self._active) or self._checks.busy or any(slots.busy for slots in self._slots)

    def _dispatch(self) -> None:
        for session, future in list(self._active.items()):
            if future.done():
                del self._active[session]
                if error := future.exception():
                    _log.error("session %s", session, exc_info=error)
        wanted = {waiting.session for waiting in self._store.waiting()}
        for session in self._store.sessions():
            if session not in self._works:
                self._look_at(session)
        wanted |= {session for session, works in list(self._works.items()) if works}
        paused = {session for session, trouble in list(self._troubles.items()) if not trouble.over()}
        for session in wanted - self._active.keys() - self._left_alone - paused:
            self._active[session] = self._pool.submit(self._run, session)

    def _look_at(self, session: str) -> None:
        try:
            self._works[session] = summary_of(self._store, session).works
        except sqlite3.Error as error:
            self._try_again(session, error)
        except Exception as error:  # noqa: BLE001 - an unreadable session must not stop the others
            _log.exception("session %s", session)
            self._works[session] = False
            self._leave_alone(session, _message_for(error))

    def _run(self, session: str) -> None:
        try:
            with self._writing(session):
                with self._tools.at_work(session) as bench:
                    state = Session(self._store, session, bench).run()
                self._works[session] = state.works
        except Exception as error:  # noqa: BLE001 - thread boundary
            _log.exception("session %s", session)
            self._works[session] = False
            self._interrupt(session, _message_for(error))

    def _interrupt(self, session: str, reason: str) -> None:
        """Record in the session that it failed. If the session was idle, the pending decision failed: refuse it."""
        try:
            with self._writing(session):
                state = state_of(self._store, session)
                events = studies.give_up(state, reason)
                if state.status in WORKING:
                    events.append(StateChanged(SessionState.INTERRUPTED, f"{reason} Resume to try again."))
                if events:
                    append(self._store, session, state, events)
                elif decisions := self._store.waiting(session):
                    self._store.refuse(decisions[0].id, reason)
        except Exception:  # noqa: BLE001 - thread boundary: its record cannot be read
            _log.exception("session %s cannot be marked as interrupted", session)
            self._leave_alone(session, reason)

    @contextlib.contextmanager
    def _writing(self, session: str) -> Iterator[None]:
        """Look at the session again after another writer's events, or after the store has failed for a while."""
        try:
            yield
            self._store.set_live(session, "")
            self._troubles.pop(session, None)
        except LeaseError:
            self._works.pop(session, None)
        except sqlite3.Error as error:
            self._try_again(session, error)

    def _try_again(self, session: str, error: sqlite3.Error) -> None:
        """Try again after a pause that doubles each time: every event is durable, so nothing is lost."""
        last = self._troubles.get(session)
        pause_s = min(2 * last.pause_s, _LONGEST_STORE_PAUSE_S) if last else _STORE_PAUSE_S
        reason = f"The store failed: {error}. Trying again."
        if last is None or last.reason != reason:
            _log.error("session %s", session, exc_info=error)
        self._troubles[session] = _Trouble(reason, pause_s, time.monotonic() + pause_s)
        self._works[session] = True
        with contextlib.suppress(sqlite3.Error):
            self._store.set_live(session, reason)

    def _leave_alone(self, session: str, reason: str) -> None:
        """Skip the session until the next engine starts: it cannot be marked, so it would fail again at once."""
        self._left_alone.add(session)
        with contextlib.suppress(Exception):
            self._store.set_live(session, reason)

    def _warm(self) -> None:
        try:
            self._checks.open()
            self._tools.warm(lambda text: self._store.set_live(ENGINE_LINE, text))
            self._store.set_live(ENGINE_LINE, "")
            if not self._ended.wait(SETTLED_S):
                self._tools.warm_compiler()
        except CutegenError as error:
            self._say_not_ready(str(error))
        except Exception as error:  # noqa: BLE001 - thread boundary
            _log.exception("warming up")
            self._say_not_ready(_message_for(error))

    def _say_not_ready(self, why: str) -> None:
        with contextlib.suppress(sqlite3.Error, StoreError):  # a store that fails is said by the poll
            self._store.set_live(ENGINE_LINE, f"not ready: {why}")


def _message_for(error: Exception) -> str:
    """Return the message a person reads about an error that ended a session."""
    what = str(error) if isinstance(error, CutegenError) else f"{type(error).__name__}: {error}"
    return f"{what.rstrip('.')}. The details are in {workspace.home() / 'engine.log'}."
