"""Open the SQLite file of the store, and read and write it: one file, several processes, several threads in each.

Writers wait for one another in short steps, so that readers of the same object wait for none of them. A file that was
deleted or replaced meanwhile is noticed before anything is read or written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.machine import workspace
from cutegen_core.records.errors import LOOKS_ON, AccessError, StoreError, StoreGoneError
from cutegen_core.trajectory import migrations
from cutegen_core.trajectory.migrations import NewerSchemaError

_BUSY_S = 30.0
"""How long to wait for another process that writes."""
_STEP_S = 0.001


class Moment(NamedTuple):
    """A moment between two writes: the number of other connections' commits, and of this one's changes."""

    version: int
    changes: int


class Database:
    """Open (and create) the file. One object may be used from several threads.

    Opening a store of an older version migrates it (`migrations`), also for a person who only looks on.

    Args:
        read_only: for a person who looks on; every write they ask for is an AccessError.

    Raises:
        StoreError: the file cannot be opened, or a newer version has written it; the text says what to do.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False) -> None:
        self.path = path or workspace.home() / "store.db"
        self._read_only = read_only
        self._lock = threading.RLock()
        try:
            self._db = _open(self.path)
            self._file = self.path.stat()
        except (sqlite3.Error, OSError) as error:
            advice = "Check that you may write it, move the file away, or set CUTEGEN_HOME."
            raise StoreError(f"cannot open the store {self.path}: {error}. {advice}") from error

    def close(self) -> None:
        with self._lock:  # a statement of another thread ends first: SQLite frees what it uses
            self._db.close()

    def is_current(self) -> bool:
        """Return whether the store is still the one this version opened; False if a newer version migrated it."""
        return int(self.query("PRAGMA user_version")[0][0]) == migrations.VERSION

    def query(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one statement that reads."""
        with self._lock:
            self._check_in_place()
            return self._db.execute(sql, values).fetchall()

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Carry out one statement in a transaction of its own, durable on return; return how many rows it changed."""
        with self._transaction():
            return self._db.execute(sql, values).rowcount

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        return int(self.query("PRAGMA data_version")[0][0])

    def mark(self) -> Moment:
        """Return a value that is another one after anybody has written."""
        with self._lock:
            return Moment(self.version(), self._db.total_changes)

    def is_at(self, mark: Moment) -> bool:
        """Return whether nobody has written since `mark`; does not wait: False where that cannot be told at once."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self.mark() == mark
        except (StoreGoneError, sqlite3.Error):
            return False  # whoever reads it next says so
        finally:
            self._lock.release()

    @contextmanager
    def _transaction(self, *, durable: bool = True) -> Iterator[None]:
        if self._read_only:
            raise AccessError(LOOKS_ON)
        with self._begun("FULL" if durable else "NORMAL"):
            try:
                if not self.is_current():
                    raise StoreError(f"the store {self.path} now belongs to a newer workbench: restart this one")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite has ended it itself where, for one, the disk is full
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _begun(self, synchronous: str) -> Iterator[None]:
        """Begin to write, holding this object's lock; wait for another process in short steps and without it.

        SQLite itself waits in steps of up to 100 ms, and whoever reads from this object meanwhile would wait, too.
        """
        deadline = time.monotonic() + _BUSY_S
        while True:
            with self._lock:
                self._check_in_place()
                self._db.execute(f"PRAGMA synchronous = {synchronous}")
                if self._begins(may_fail=time.monotonic() < deadline):
                    yield
                    return
            time.sleep(_STEP_S)

    def _begins(self, *, may_fail: bool) -> bool:
        """Return whether the write lock was free."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not may_fail:
                raise
            return False
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {int(1000 * _BUSY_S)}")
        return True

    def _check_in_place(self) -> None:
        """Raise StoreGoneError if the file is another one: what is written to a deleted file is lost."""
        try:
            if os.path.samestat(self.path.stat(), self._file):
                return
        except FileNotFoundError:
            pass
        raise StoreGoneError(
            f"the store {self.path} was deleted or replaced while the workbench ran. Put it back, or go on with an "
            "empty one: open the page or type the command again."
        )


def _open(path: Path) -> sqlite3.Connection:
    """Connect to the store and bring it up to this version; StoreError when a newer one has written it."""
    workspace.make_private(path)
    for beside in ("-wal", "-shm"):  # SQLite gives new ones the rights of the store
        if (file := path.with_name(path.name + beside)).exists():
            workspace.make_private(file)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)
    try:
        _switch_to_wal(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        migrations.migrate(db)
    except NewerSchemaError as error:
        db.close()
        raise StoreError(
            f"the store {path} was written by a newer workbench ({error}). Update this one, or set CUTEGEN_HOME to "
            "another folder."
        ) from error
    except sqlite3.Error:
        db.close()
        raise
    return db


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Set the journal mode, which the file keeps. Here SQLite does not wait for another process, so this does."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
