"""Keep event logs, blobs and the inbox of decisions in one SQLite file (`database`): the store.

It is the only thing the page, the command line and the engine share. Events of a session are numbered without gaps:
an append that does not continue the number its writer knows is refused, so two writers can never interleave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import uuid4

from pydantic import Field

from cutegen_core.records import as_json, older
from cutegen_core.records.candidate import content_key
from cutegen_core.records.decision import Decision
from cutegen_core.records.errors import LeaseError, StoreError, UsageError
from cutegen_core.records.event import Event, Recorded
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.database import Database
from cutegen_core.trajectory.old_edits import with_names
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.summaries import dump, fold_digest
from cutegen_core.trajectory.transitions import fold

R = TypeVar("R")
Summarise = Callable[[Sequence[Recorded]], str]
"""Makes the summary, as it is stored, of the session after these further events."""
_EVENT: Any = Annotated[Event, Field(discriminator="kind")]

ENGINE_LINE = "engine"
"""Key of the live line that says what the engine itself is doing."""


class WaitingDecision(NamedTuple):
    """A decision in the inbox."""

    id: int
    session: str
    decision: Decision


class Ticket(NamedTuple):
    """The fate of a submitted decision: `taken` is False while the engine has not looked."""

    taken: bool
    refusal: str


class CachedTrial(NamedTuple):
    """A stored trial of an unchanged candidate; `at` is seconds since the epoch."""

    trial: str
    at: float


class Listed(NamedTuple):
    """A session in a list; `summary` is its stored summary, "" where it must be made of the events."""

    session: str
    summary: str


class Draft(NamedTuple):
    """Unsaved typing in the editor: `base` is the candidate it was started from."""

    base: str
    text: str


def edit_name(session: str, base: str) -> str:
    """Name the draft that was started from this candidate of the session, "" for the example."""
    return f"{session}:{base}"


class Store(Database):
    """Open (and create) the store; its tables, by what they are for. `jobs` has its own, by `query` and `change`."""

    # ---- sessions and events

    def create_session(self, first: Event) -> str:
        """Create a session with its first event; return its id."""
        session = uuid4().hex[:10]
        with self._transaction():
            self._db.execute("INSERT INTO sessions VALUES (?, ?)", (session, time.time()))
            self._summarise_all(session, self._append(session, [first], after=0))
        return session

    def adopt(self, events: Sequence[Recorded]) -> str:
        """Create a session from events that happened elsewhere, at their own times; return its id.

        Raises:
            StoreError: they are not numbered 1, 2, 3, ... without gaps.
        """
        if not events or [r.seq for r in events] != list(range(1, len(events) + 1)):
            raise StoreError(f"{len(events)} events that are not numbered from 1 without gaps cannot be a session")
        session = uuid4().hex[:10]
        rows = [(session, r.seq, r.at, as_json.dump(r.event)) for r in events]
        with self._transaction():
            self._db.execute("INSERT INTO sessions VALUES (?, ?)", (session, time.time()))
            self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
            self._summarise_all(session, events)
        return session

    def sessions(self) -> tuple[str, ...]:
        """Return the ids, newest first."""
        rows = self.query("SELECT id FROM sessions ORDER BY created_at DESC")
        return tuple(row[0] for row in rows)

    def find_session(self, prefix: str) -> str:
        """Return the session whose id starts with `prefix`; UsageError if there is none or several."""
        found = [s for s in self.sessions() if s.startswith(prefix)] if prefix else []
        if len(found) != 1:
            raise UsageError(
                f"{'no' if not found else 'more than one'} session {prefix!r}; `cutegen sessions` lists them"
            )
        return found[0]

    def append(
        self, session: str, events: Sequence[Event], *, after: int, taking: int | None = None,
        summarise: Summarise | None = None,
    ) -> list[Recorded]:  # fmt: skip
        """Append in one transaction, durable on return.

        Args:
            after: the last sequence number the writer knows.
            taking: id of the inbox entry these events answer, marked taken in the same transaction.
            summarise: makes the summary that is stored with them; without it the next list makes it.

        Raises:
            LeaseError: somebody else has appended meanwhile.
        """
        with self._transaction():
            recorded = self._append(session, events, after)
            if taking is not None:
                self._db.execute("UPDATE inbox SET taken = 1 WHERE id = ?", (taking,))
            if summarise is not None and recorded:
                self._put_summary(session, recorded[-1].seq, summarise(recorded))
        return recorded

    def events(self, session: str, after: int = 0) -> list[Recorded]:
        """Return the events with a sequence number above `after`, in order."""
        rows = self.query(
            "SELECT seq, at, payload FROM events WHERE session = ? AND seq > ? ORDER BY seq", (session, after)
        )
        return [Recorded(seq, at, as_json.load(_EVENT, older.event(payload))) for seq, at, payload in rows]

    def last_seq(self, session: str) -> int:
        row = self.query("SELECT MAX(seq) FROM events WHERE session = ?", (session,))
        return int(row[0][0] or 0)

    def listed(self, session: str = "") -> list[Listed]:
        """Return all sessions, newest first, or this one: each with its summary if that was made of all its events."""
        where, values = ("WHERE s.id = ?", (session,)) if session else ("", ())
        rows = self.query(
            "SELECT s.id, m.payload FROM sessions s LEFT JOIN summaries m ON m.session = s.id AND m.made_by = ? "
            f"AND m.seq = (SELECT MAX(seq) FROM events WHERE session = s.id) {where} ORDER BY s.created_at DESC",
            (fold_digest(), *values),
        )
        return [Listed(found, payload or "") for found, payload in rows]

    def put_summaries(self, states: Mapping[str, State]) -> None:
        """Store the summaries of these sessions, each for the last event of its state; does nothing on a store that
        cannot be written."""
        if self._read_only or not states:
            return
        with self._transaction():
            for session, state in states.items():
                self._put_summary(session, state.seq, dump(state))

    # ---- blobs

    def put(self, data: str | bytes) -> str:
        """Store a text or bytes under its content key."""
        key = content_key(data)
        raw = data.encode() if isinstance(data, str) else data
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, raw))
        return key

    def get(self, key: str) -> bytes:
        """Return the bytes under that key; StoreError if there are none, or others than were stored."""
        rows = self.query("SELECT data FROM blobs WHERE key = ?", (key,))
        if not rows:
            raise StoreError(
                f"blob {key[:12]} is not in the store {self.path}: a row was removed, or the file was damaged. Restore "
                "a copy of the file, or import a recording of the session."
            )
        data = bytes(rows[0][0])
        if content_key(data) != key:
            raise StoreError(
                f"blob {key[:12]} in the store {self.path} is not what was stored under that key: the file was changed "
                "or damaged. Restore a copy of it, or import a recording of the session."
            )
        return data

    def text(self, key: str) -> str:
        return self.get(key).decode()

    def put_record(self, record: object) -> str:
        return self.put(as_json.dump(record))

    def record(self, kind: type[R], key: str) -> R:
        text = older.metrics(self.text(key))
        return as_json.load(kind, older.trial(text) if kind is Trial else text)

    # ---- decisions

    def submit(self, session: str, decision: Decision) -> int:
        """Put a decision into the inbox; return a ticket number for `ticket`."""
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO inbox (session, at, payload) VALUES (?, ?, ?)",
                (session, time.time(), as_json.dump(decision)),
            )
        return int(cursor.lastrowid or 0)

    def waiting(self, session: str | None = None) -> list[WaitingDecision]:
        """Return the decisions that were not taken yet, oldest first.

        What this version cannot read is refused here, saying so (its text stays in the inbox), and left out.
        """
        where, values = ("AND session = ?", (session,)) if session else ("", ())
        rows = self.query(f"SELECT id, session, payload FROM inbox WHERE taken = 0 {where} ORDER BY id", values)
        found = []
        for number, owner, payload in rows:
            try:
                found.append(WaitingDecision(number, owner, as_json.load(Decision, older.decision(payload))))
            except StoreError as error:
                self._refuse_unreadable(number, error)
        return found

    def refuse(self, number: int, reason: str) -> None:
        with self._transaction():
            self._db.execute("UPDATE inbox SET taken = 1, refusal = ? WHERE id = ?", (reason, number))

    def ticket(self, number: int) -> Ticket:
        """Return what became of a decision; UsageError where none has this number."""
        rows = self.query("SELECT taken, refusal FROM inbox WHERE id = ?", (number,))
        if not rows:
            raise UsageError(f"no decision number {number}")
        return Ticket(bool(rows[0][0]), rows[0][1])

    # ---- things that may be lost or made again

    def cached_trial(self, key: str) -> CachedTrial | None:
        rows = self.query("SELECT trial, at FROM trials WHERE key = ?", (key,))
        return CachedTrial(*rows[0]) if rows else None

    def cache_trial(self, key: str, trial: str) -> None:
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO trials VALUES (?, ?, ?)", (key, trial, time.time()))

    def set_live(self, session: str, text: str) -> None:
        """Set the line under the running stage; it is not part of the trajectory, and nobody waits for the disk."""
        with self._transaction(durable=False):
            self._db.execute("INSERT OR REPLACE INTO live VALUES (?, ?, ?)", (session, time.time(), text))

    def live(self, session: str) -> str:
        rows = self.query("SELECT text FROM live WHERE session = ?", (session,))
        return str(rows[0][0]) if rows else ""

    def save_draft(self, session: str, draft: Draft | None) -> None:
        """Save what is typed under this name, mostly `edit_name`, or forget it."""
        with self._transaction():
            self._db.execute("DELETE FROM drafts WHERE session = ?", (session,))
            if draft:
                self._db.execute("INSERT INTO drafts VALUES (?, ?, ?)", (session, draft.base, draft.text))

    def replace_draft(self, session: str, old: Draft, new: Draft) -> bool:
        """Save `new` if the draft is still `old`; return False if another tab has changed it meanwhile."""
        with self._transaction():
            cursor = self._db.execute(
                "UPDATE drafts SET base = ?, text = ? WHERE session = ? AND base = ? AND text = ?",
                (*new, session, *old),
            )
        return cursor.rowcount > 0

    def draft(self, session: str) -> Draft | None:
        rows = self.query("SELECT base, text FROM drafts WHERE session = ?", (session,))
        return Draft(*rows[0]) if rows else None

    def edits(self, session: str) -> tuple[Draft, ...]:
        """Return the drafts of a session's kernels."""
        first, end = edit_name(session, ""), f"{session};"  # ";" comes after ":"
        return tuple(
            Draft(*row)
            for row in self.query("SELECT base, text FROM drafts WHERE session >= ? AND session < ?", (first, end))
        )

    # ---- inside

    def _summarise_all(self, session: str, events: Sequence[Recorded]) -> None:
        """Store the summary of a new session; none where its events cannot be folded, which the next list says."""
        with suppress(StoreError):
            self._put_summary(session, events[-1].seq, dump(fold(with_names(events, self.text))))

    def _put_summary(self, session: str, seq: int, summary: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)", (session, seq, fold_digest(), summary))

    def _refuse_unreadable(self, number: int, error: StoreError) -> None:
        if not self._read_only:
            self.refuse(number, f"{error}. Nothing was done: another version of the workbench may have written it.")

    def _append(self, session: str, events: Sequence[Event], after: int) -> list[Recorded]:
        now = time.time()
        recorded = [Recorded(after + i, now, event) for i, event in enumerate(events, 1)]
        rows = [(session, r.seq, r.at, as_json.dump(r.event)) for r in recorded]
        if self.last_seq(session) != after:
            raise LeaseError(f"session {session} has been written by somebody else; reopen it")
        self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
        return recorded
