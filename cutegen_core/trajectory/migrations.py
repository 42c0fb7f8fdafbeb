"""The schema of the store as numbered steps, from the first stores, which carry no number, to this version.

1. SQLite keeps the number of the last step in the file itself (`PRAGMA user_version`).
2. Opening a store applies the steps it lacks, each in a transaction of its own, under SQLite's write lock: of several
   processes that open a store at once, the first applies a step, the others wait and find it applied.
3. A store with a higher number than the last step is refused: this version cannot know what it holds.
To change what is stored, append a step; never change one that was released.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

Payload = dict[str, Any]
"""An event as it is stored: a JSON object."""


class Migration(NamedTuple):
    """One step; `apply` runs inside a transaction and must not end it."""

    number: int
    title: str
    apply: Callable[[sqlite3.Connection], None]


class NewerSchemaError(Exception):
    """The store has a higher number than the last migration of this version; `found` is that number."""

    def __init__(self, found: int) -> None:
        super().__init__(f"schema version {found}, known up to {VERSION}")
        self.found = found


def migrate(db: sqlite3.Connection) -> None:
    """Bring the store up to `VERSION`. `db` must be in autocommit mode (`isolation_level=None`).

    Raises:
        NewerSchemaError: the store was written by a newer version.
        sqlite3.Error: a step failed; the store is as it was before that step.
    """
    while (version := version_of(db)) < VERSION:
        _apply(db, MIGRATIONS[version])
    if version > VERSION:
        raise NewerSchemaError(version)


def version_of(db: sqlite3.Connection) -> int:
    """Return the number of the last migration applied to the store; 0 for a new file and for the first stores."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _apply(db: sqlite3.Connection, migration: Migration) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if version_of(db) < migration.number:  # another process may have applied it while this one waited for the lock
            migration.apply(db)
            db.execute(f"PRAGMA user_version = {migration.number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def rewrite_events(db: sqlite3.Connection, change: Callable[[Payload], Payload]) -> None:
    """Replace the payload of every event for which `change` returns another one; `change` must not edit its argument.

    For a migration that renames a kind or a field: names in stored events must fit `records.event` of the same commit.
    """
    rows = db.execute("SELECT session, seq, payload FROM events ORDER BY session, seq")
    changed = []
    for session, seq, text in rows:
        before = json.loads(text)
        after = change(before)
        if after != before:
            changed.append((json.dumps(after, separators=(",", ":")), session, seq))
    db.executemany("UPDATE events SET payload = ? WHERE session = ? AND seq = ?", changed)


# ---- the steps

_TABLES = (
    "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created_at REAL NOT NULL)",
    """CREATE TABLE IF NOT EXISTS events (
        session TEXT NOT NULL REFERENCES sessions(id), seq INTEGER NOT NULL, at REAL NOT NULL, payload TEXT NOT NULL,
        PRIMARY KEY (session, seq)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions(id), at REAL NOT NULL,
        payload TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0, refusal TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX IF NOT EXISTS inbox_pending ON inbox (session) WHERE taken = 0",
    "CREATE TABLE IF NOT EXISTS trials (key TEXT PRIMARY KEY, trial TEXT NOT NULL, at REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS live (session TEXT PRIMARY KEY, at REAL NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS drafts (session TEXT PRIMARY KEY, base TEXT NOT NULL, text TEXT NOT NULL)",
)


def _create_tables(db: sqlite3.Connection) -> None:
    """Create the tables of the first stores; those have them already and only get the number."""
    for statement in _TABLES:
        db.execute(statement)


def _forget_cached_trials(db: sqlite3.Connection) -> None:
    """Forget which trial answers for which candidate: the keys rested on a version number that never moved, so a
    verdict of an older judge could be found under them. The trials themselves are blobs and stay."""
    db.execute("DELETE FROM trials")


_JOB_TABLES = (
    """CREATE TABLE jobs (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, settings TEXT NOT NULL, state TEXT NOT NULL,
        progress TEXT NOT NULL DEFAULT '', result TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
        created_at REAL NOT NULL, started_at REAL NOT NULL DEFAULT 0, ended_at REAL NOT NULL DEFAULT 0,
        origin TEXT NOT NULL, stop INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX jobs_unfinished ON jobs (state) WHERE state IN ('waiting', 'running')",
    """CREATE TABLE job_reports (
        job TEXT NOT NULL REFERENCES jobs(id), number INTEGER NOT NULL, at REAL NOT NULL, payload TEXT NOT NULL,
        PRIMARY KEY (job, number)) WITHOUT ROWID""",
)


def _create_job_tables(db: sqlite3.Connection) -> None:
    for statement in _JOB_TABLES:
        db.execute(statement)


def _name_drafts_by_kernel(db: sqlite3.Connection) -> None:
    """Name the draft of a session by the candidate it was started from, too: each kernel has a draft of its own."""
    db.execute("UPDATE drafts SET session = session || ':' || base WHERE session IN (SELECT id FROM sessions)")


_SUMMARY_TABLES = (
    """CREATE TABLE summaries (
        session TEXT PRIMARY KEY REFERENCES sessions(id), seq INTEGER NOT NULL, made_by TEXT NOT NULL,
        payload TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TRIGGER events_changed AFTER UPDATE ON events BEGIN
        DELETE FROM summaries WHERE session IN (OLD.session, NEW.session); END""",
    """CREATE TRIGGER events_removed AFTER DELETE ON events BEGIN
        DELETE FROM summaries WHERE session = OLD.session; END""",
)


def _create_summaries(db: sqlite3.Connection) -> None:
    """Create the table; who lists the sessions first fills it. A stored event that is changed drops its summary."""
    for statement in _SUMMARY_TABLES:
        db.execute(statement)


MIGRATIONS = (
    Migration(1, "the tables of the first stores", _create_tables),
    Migration(2, "cached trials under keys that rest on what can change a verdict", _forget_cached_trials),
    Migration(3, "jobs and what they report", _create_job_tables),
    Migration(4, "a draft for every edited kernel", _name_drafts_by_kernel),
    Migration(5, "a summary of each session", _create_summaries),
)
"""In order, numbered from 1 without gaps."""

VERSION = MIGRATIONS[-1].number
"""What a store of this version carries."""
