"""Opening a store migrates it once, whole or not at all, whoever else opens it; a newer one is refused."""

import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import SessionCreated, SessionSettings, StepStarted
from cutegen_core.trajectory import migrations
from cutegen_core.trajectory.migrations import MIGRATIONS, VERSION, Migration, rewrite_events, version_of
from cutegen_core.trajectory.store import Store
from tests.patience import PATIENCE_S

SETTINGS = SessionSettings("0" * 64, "relu", "playbook", "cpu", "sm_90a", "H200")


@pytest.fixture
def old(tmp_path):
    """A store without a number, with the tables of its time and one cached trial."""
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as db:
        MIGRATIONS[0].apply(db)
        db.execute("INSERT INTO trials VALUES ('key', 'trial', 0)")
        db.execute("INSERT INTO sessions VALUES ('s', 0)")
        for seq, event in enumerate(({"kind": "was_called", "note": "x"}, {"kind": "other", "error": float("nan")}), 1):
            db.execute("INSERT INTO events VALUES ('s', ?, 0, ?)", (seq, json.dumps(event)))
    db.close()
    return path


@pytest.fixture
def connected(old):
    db = sqlite3.connect(old, isolation_level=None)
    yield db
    db.close()


def version(path):
    db = sqlite3.connect(path)
    try:
        return version_of(db)
    finally:
        db.close()


def test_the_steps_are_numbered_without_gaps():
    assert [m.number for m in MIGRATIONS] == list(range(1, VERSION + 1))
    assert all(m.title for m in MIGRATIONS)


def test_a_new_store_and_an_old_one_get_the_number_of_this_version(old, tmp_path):
    assert version(old) == 0
    for path in (old, tmp_path / "new.db"):
        store = Store(path)
        assert store.is_current()
        store.close()
        assert version(path) == VERSION


def test_cached_verdicts_under_the_old_keys_are_forgotten(old):
    store = Store(old)
    assert store.cached_trial("key") is None
    store.close()


def test_who_only_looks_on_finds_an_old_store_migrated(old):
    store = Store(old, read_only=True)
    assert store.sessions() == ("s",)
    store.close()
    assert version(old) == VERSION


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(old):
    with sqlite3.connect(old) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 3}")
    db.close()
    before = old.read_bytes()
    with pytest.raises(StoreError, match=rf"newer workbench \(schema version {VERSION + 3}, known up to {VERSION}\)"):
        Store(old)
    with pytest.raises(StoreError, match="Update this one, or set CUTEGEN_HOME"):
        Store(old, read_only=True)
    assert old.read_bytes()[100:] == before[100:], "the header says WAL now, and nothing else is new"


def test_an_old_store_that_may_not_be_written_is_named(old, monkeypatch):
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **more: real(f"file:{path}?mode=ro", uri=True, **more))
    with pytest.raises(StoreError, match=r"cannot open the store .*readonly.*Check that you may write it"):
        Store(old)
    monkeypatch.undo()
    assert version(old) == 0


def test_a_step_that_fails_leaves_the_store_as_it_was(connected, monkeypatch):
    def half(db):
        db.execute("DELETE FROM sessions WHERE id = 'nobody'")
        db.execute("ALTER TABLE trials RENAME TO verdicts")
        db.execute("INSERT INTO nowhere VALUES (1)")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, Migration(VERSION + 1, "fails", half)))
    monkeypatch.setattr(migrations, "VERSION", VERSION + 1)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrations.migrate(connected)
    assert version_of(connected) == VERSION, "the steps before it are done and stay"
    assert connected.execute("SELECT COUNT(*) FROM trials").fetchone() == (0,)


def test_a_step_may_rewrite_stored_events(connected):
    def renamed(payload):
        return payload | {"kind": "is_called"} if payload["kind"] == "was_called" else payload

    connected.execute("BEGIN")
    rewrite_events(connected, renamed)
    connected.execute("COMMIT")
    rows = [row[0] for row in connected.execute("SELECT payload FROM events ORDER BY seq")]
    assert rows == ['{"kind":"is_called","note":"x"}', json.dumps({"kind": "other", "error": float("nan")})]


SLOW_STEP = """
import sys, time
from pathlib import Path
from cutegen_core.trajectory import migrations
from cutegen_core.trajectory.migrations import MIGRATIONS, VERSION, Migration, rewrite_events
from cutegen_core.trajectory.store import Store

def longer(db):
    rewrite_events(db, lambda payload: payload | {"note": payload.get("note", "") + "+"})
    time.sleep(0.3)

migrations.MIGRATIONS = (*MIGRATIONS, Migration(VERSION + 1, "longer notes", longer))
migrations.VERSION = VERSION + 1
print("ready", flush=True)
sys.stdin.readline()
store = Store(Path(sys.argv[1]))
print(store.is_current(), [len(store.query("SELECT payload FROM events"))])
"""


@pytest.mark.parametrize("exists", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_of_several_processes_one_migrates(old, exists):
    if not exists:
        old.unlink()
    with ThreadPoolExecutor(3) as pool:
        opened = [
            subprocess.Popen(
                [sys.executable, "-c", SLOW_STEP, str(old)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=os.environ | {"PYTHONPATH": "."},
            )
            for _ in range(3)
        ]  # fmt: skip
        assert [p.stdout.readline() for p in opened] == ["ready\n"] * 3
        said = list(pool.map(lambda p: p.communicate("go\n", timeout=PATIENCE_S)[0], opened))
    assert said == [f"True [{2 if exists else 0}]\n"] * 3
    db = sqlite3.connect(old)
    notes = [json.loads(row[0])["note"] for row in db.execute("SELECT payload FROM events ORDER BY seq")]
    db.close()
    assert notes == (["x+", "+"] if exists else [])


def test_a_writer_whose_store_was_migrated_meanwhile_writes_nothing_more(tmp_path):
    store = Store(tmp_path / "store.db")
    session = store.create_session(SessionCreated(SETTINGS))
    with sqlite3.connect(store.path) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    assert not store.is_current()
    for write in (lambda: store.append(session, [StepStarted(1, None)], after=1), lambda: store.put("text")):
        with pytest.raises(StoreError, match="now belongs to a newer workbench: restart this one"):
            write()
    assert store.last_seq(session) == 1
    store.close()
