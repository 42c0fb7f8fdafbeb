"""The store loses nothing it acknowledged and lets one writer through."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import LeaseError, StoreError, UsageError
from cutegen_core.records.event import AnsweredBy, SessionCreated, SessionSettings, StepStarted
from cutegen_core.trajectory.store import Draft, Store
from tests.patience import SOON_S

SETTINGS = SessionSettings("0" * 64, "relu", AnsweredBy.PLAYBOOK, "cpu", "sm_90a", "H200")


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store.db")
    yield store
    store.close()


def test_events_come_back_as_they_went_in(store):
    session = store.create_session(SessionCreated(SETTINGS))
    store.append(session, [StepStarted(1, None, "use float4"), StepStarted(2, "a" * 64, repair=True)], after=1)
    recorded = store.events(session)
    assert [r.seq for r in recorded] == [1, 2, 3]
    assert recorded[0].event == SessionCreated(SETTINGS)
    assert recorded[2].event == StepStarted(2, "a" * 64, repair=True)
    assert [r.seq for r in store.events(session, after=2)] == [3]


def test_a_second_writer_is_refused_and_writes_nothing(store, tmp_path):
    session = store.create_session(SessionCreated(SETTINGS))
    other = Store(tmp_path / "store.db")
    store.append(session, [StepStarted(1, None)], after=1)
    with pytest.raises(LeaseError, match="written by somebody else"):
        other.append(session, [StepStarted(1, None), StepStarted(2, None)], after=1)
    assert other.last_seq(session) == 2


def test_blobs_are_addressed_by_content_and_missing_ones_are_named(store):
    assert store.put("same") == store.put(b"same")
    assert store.text(store.put("text")) == "text"
    with pytest.raises(StoreError, match="blob ffffffffffff is not in the store"):
        store.get("f" * 64)


def test_a_text_that_was_changed_in_the_file_is_not_taken_for_what_was_stored(store, tmp_path):
    """It would be exported as the kernel that passed."""
    key = store.put("x < 0 ? 0 : x")
    with sqlite3.connect(tmp_path / "store.db") as file:
        file.execute("UPDATE blobs SET data = ? WHERE key = ?", (b"x < 0 ? \xff : x", key))
    with pytest.raises(StoreError, match=f"blob {key[:12]} in the store .* is not what was stored under that key"):
        store.text(key)


def test_an_answered_decision_leaves_the_inbox_with_its_events(store):
    session = store.create_session(SessionCreated(SETTINGS))
    first = store.submit(session, Decision(DecisionKind.STOP))
    second = store.submit(session, Decision(DecisionKind.RESUME))
    store.append(session, [StepStarted(1, None)], after=1, taking=first)
    assert [w.id for w in store.waiting(session)] == [second]
    store.refuse(second, "too late")
    assert store.waiting() == []
    assert store.ticket(second) == (True, "too late")


def test_a_decision_of_another_version_is_refused_and_keeps_no_other_waiting(store, tmp_path):
    session = store.create_session(SessionCreated(SETTINGS))
    strange = store.submit(session, Decision(DecisionKind.RESUME))
    stop = store.submit(session, Decision(DecisionKind.STOP))
    with sqlite3.connect(store.path) as raw:
        raw.execute("UPDATE inbox SET payload = ? WHERE id = ?", ('{"kind": "transpose"}', strange))
    looking_on = Store(store.path, read_only=True)
    assert [w.id for w in looking_on.waiting(session)] == [stop]
    assert store.ticket(strange) == (False, "")
    assert [w.id for w in store.waiting(session)] == [stop]
    taken, refusal = store.ticket(strange)
    assert taken
    assert "stored Decision cannot be read: kind" in refusal
    assert "another version" in refusal


def test_a_transaction_that_sqlite_has_ended_itself_says_why(store):
    with sqlite3.connect(store.path) as raw:
        raw.execute("CREATE TRIGGER torn BEFORE INSERT ON blobs BEGIN SELECT RAISE(ROLLBACK, 'disk is full'); END")
    with pytest.raises(sqlite3.Error, match="disk is full"):
        store.put("text")


def test_a_write_that_fails_at_its_end_stands_in_the_way_of_no_other(store):
    with sqlite3.connect(store.path) as raw:
        raw.execute("CREATE TABLE late (id TEXT REFERENCES sessions(id) DEFERRABLE INITIALLY DEFERRED)")
        raw.execute("CREATE TRIGGER torn AFTER INSERT ON blobs BEGIN INSERT INTO late VALUES ('nobody'); END")
    with pytest.raises(sqlite3.Error, match="FOREIGN KEY"):
        store.put("text")
    with sqlite3.connect(store.path) as raw:
        raw.execute("DROP TRIGGER torn")
    assert store.text(store.put("text")) == "text"


def test_sessions_are_found_by_the_beginning_of_their_id(store):
    session = store.create_session(SessionCreated(SETTINGS))
    assert store.find_session(session[:6]) == session
    with pytest.raises(UsageError, match="no session 'zz'"):
        store.find_session("zz")


def test_a_draft_survives_until_it_is_dropped(store):
    session = store.create_session(SessionCreated(SETTINGS))
    store.save_draft(session, Draft("base", "half a line"))
    assert store.draft(session) == Draft("base", "half a line")
    store.save_draft(session, None)
    assert store.draft(session) is None


def test_many_threads_may_write_blobs_at_once(store):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(store.put, (f"blob {i % 20}" for i in range(200))))
    assert len(set(keys)) == 20


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "store.db"
    path.write_text("this is not a database" * 100)
    with pytest.raises(StoreError, match=r"cannot open the store .*store\.db.*CUTEGEN_HOME"):
        Store(path)


WRITER = """
import sys
import threading
from pathlib import Path
from cutegen_core.records.event import AnsweredBy, SessionCreated, SessionSettings, StepStarted
from cutegen_core.trajectory.store import Store
store = Store(Path(sys.argv[1]))
settings = SessionSettings("0" * 64, "relu", AnsweredBy.PLAYBOOK, "cpu", "sm_90a", "H200")
session = store.create_session(SessionCreated(settings))
print(session, flush=True)
seq = 1
while True:
    store.append(session, [StepStarted(seq, None)], after=seq)
    seq += 1
    print(seq, flush=True)
"""


def test_kill_9_loses_no_acknowledged_event(tmp_path):
    path = tmp_path / "store.db"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    assert process.stdout is not None
    session = process.stdout.readline().strip()
    acknowledged = [int(process.stdout.readline()) for _ in range(100)]
    process.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().split()]
    process.wait()
    store = Store(path)
    events = store.events(session)
    assert len(events) >= acknowledged[-1]
    assert [r.seq for r in events] == list(range(1, len(events) + 1))
    store.append(session, [StepStarted(0, None)], after=len(events))


def test_who_waits_to_write_keeps_nobody_from_reading(tmp_path):
    """Another process writes: this one's readers go on, and the writer follows within milliseconds."""
    store, other = Store(tmp_path / "store.db"), Store(tmp_path / "store.db")
    other._db.execute("BEGIN IMMEDIATE")
    waits = threading.Thread(target=store.set_live, args=("s", "a line"), daemon=True)
    waits.start()
    asked = threading.Thread(target=lambda: [store.live("s") for _ in range(1000)], daemon=True)
    asked.start()
    asked.join(SOON_S)
    assert not asked.is_alive(), "a reader waited for the writer"
    assert waits.is_alive()
    other._db.execute("ROLLBACK")
    waits.join(SOON_S)
    assert store.live("s") == "a line"
    for one in (store, other):
        one.close()
