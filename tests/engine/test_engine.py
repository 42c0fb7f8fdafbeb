"""The engine when a session, a decision or the store fails: the others go on, and what failed says so."""

import errno
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import engine
from cutegen_core.engine import loop, single
from cutegen_core.engine.loop import Engine
from cutegen_core.machine import workspace
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, StudyKind
from cutegen_core.records.errors import StoreGoneError
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    Outcome,
    Proposed,
    SessionCreated,
    SessionSettings,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    TrialStarted,
    Tried,
)
from cutegen_core.records.trial import ExecutorKind, Status
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools
from tests.crowd import descendants
from tests.patience import PATIENCE_S, wait_until


class Cold(Tools):
    """Nothing here is compiled or run."""

    compilers_warmed = 0

    def warm(self, progress):
        progress("nothing to warm")

    def warm_compiler(self):
        self.compilers_warmed += 1


@pytest.fixture
def store(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    monkeypatch.setattr(loop, "IDLE_EXIT_S", 0.5)
    made = Store(home / "store.db")
    yield made
    made.close()


class Failing(Cold):
    """No session gets its tools."""

    def at_work(self, session):
        raise OSError("no room for a scratch folder")


class Counting(Cold):
    """Counts how often a session is taken up."""

    asked = 0

    def at_work(self, session):
        self.asked += 1
        return super().at_work(session)


def serve(store, kind=Cold):
    """Return an engine from its start until it is idle; its tools, closed."""
    tools = kind(store)
    try:
        Engine(store, tools).serve()
    finally:
        tools.close()
    return tools


@pytest.mark.parametrize(("settled_s", "warmed"), [(0.0, 1), (60.0, 0)])
def test_an_engine_that_stays_warms_the_compiler(store, monkeypatch, settled_s, warmed):
    monkeypatch.setattr(loop, "SETTLED_S", settled_s)
    assert serve(store).compilers_warmed == warmed


@contextmanager
def serving(store, monkeypatch):
    """Yield an engine at work meanwhile."""
    monkeypatch.setattr(loop, "IDLE_EXIT_S", 2.0)
    served = threading.Thread(target=serve, args=(store,))
    served.start()
    yield
    served.join(PATIENCE_S)
    assert not served.is_alive()


def begun(store, *events, **changes):
    settings = SessionSettings(
        store.put_record(library.load("relu")), "relu", AnsweredBy.PERSON, ExecutorKind.CPU, "sm_90a", "H100", gates=()
    )
    session = store.create_session(SessionCreated(replace(settings, **changes)))
    if events:
        store.append(session, events, after=1)
    return session


def sound(store):
    """Return a session that is over as soon as an engine looks at it."""
    return begun(store, max_steps=0)


def undecodable(store):
    return store.put(b"\xff\xfe")


def raw(store, sql, *values):
    db = sqlite3.connect(store.path)
    with db:
        db.execute(sql, values)
    db.close()


def status(store, session):
    return state_of(store, session).status


def test_a_session_that_cannot_be_read_stops_no_other(store):
    broken, fine = begun(store), sound(store)
    raw(store, "UPDATE events SET payload = 'torn' WHERE session = ?", broken)
    serve(store)
    assert status(store, fine) is SessionState.EXHAUSTED
    assert "cannot be read" in store.live(broken)
    assert store.last_seq(broken) == 1


def test_what_nobody_foresaw_interrupts_its_session_alone_and_stays_so(store):
    source = undecodable(store)
    broken = begun(store, StepStarted(1, None), Proposed(1, source, Author.PERSON, "by hand"))
    fine = sound(store)
    serve(store)
    state = state_of(store, broken)
    assert (state.status, status(store, fine)) == (SessionState.INTERRUPTED, SessionState.EXHAUSTED)
    assert "UnicodeDecodeError" in state.reason
    assert "Resume to try again" in state.reason
    assert "engine.log" in state.reason
    serve(store)
    assert store.last_seq(broken) == state.seq


def test_a_missing_blob_interrupts_the_session_in_the_store(store):
    broken = begun(store, problem="0" * 64)
    serve(store)
    state = state_of(store, broken)
    assert state.status is SessionState.INTERRUPTED
    assert "blob 000000000000 is not in the store" in state.reason


def test_a_decision_that_cannot_be_read_is_refused_and_the_next_is_taken(store):
    session = sound(store)
    torn = store.submit(session, Decision(DecisionKind.STOP))
    raw(store, "UPDATE inbox SET payload = '{}' WHERE id = ?", torn)
    good = store.submit(session, Decision(DecisionKind.STANDING, text="short names"))
    serve(store)
    assert "stored Decision cannot be read" in store.ticket(torn).refusal
    assert store.ticket(good) == (True, "")
    assert state_of(store, session).standing == "short names"


def unwritable(store, session):
    raw(store, f"CREATE TRIGGER torn BEFORE INSERT ON events WHEN NEW.session = '{session}' "
               "BEGIN SELECT RAISE(ABORT, 'no room'); END")  # fmt: skip


def test_a_session_that_cannot_be_written_for_a_while_goes_on_when_it_can(store, monkeypatch):
    broken, fine = sound(store), sound(store)
    unwritable(store, broken)
    with serving(store, monkeypatch):
        wait_until(lambda: status(store, fine) is SessionState.EXHAUSTED and store.live(broken))
        assert (status(store, broken), store.last_seq(broken)) == (SessionState.READY, 1)
        assert store.live(broken) == "The store failed: no room. Trying again."
        raw(store, "DROP TRIGGER torn")
    assert (status(store, broken), store.live(broken)) == (SessionState.EXHAUSTED, "")


def test_what_the_store_holds_of_a_session_is_read_again_after_it_failed(store, monkeypatch):
    session = sound(store)
    raw(store, "ALTER TABLE events RENAME TO gone")
    with serving(store, monkeypatch):
        wait_until(lambda: "no such table: events" in store.live(session))
        raw(store, "ALTER TABLE gone RENAME TO events")
    assert status(store, session) is SessionState.EXHAUSTED


def test_a_decision_waits_for_the_store_to_be_whole(store, monkeypatch):
    session = begun(store, StateChanged(SessionState.STOPPED))
    unwritable(store, session)
    number = store.submit(session, Decision(DecisionKind.STANDING, text="short names"))
    with serving(store, monkeypatch):
        wait_until(lambda: "The store failed" in store.live(session))
        assert store.ticket(number) == (False, "")
        raw(store, "DROP TRIGGER torn")
    assert store.ticket(number) == (True, "")
    assert state_of(store, session).standing == "short names"


def test_what_fails_for_long_is_tried_ever_less_often_and_logged_once(store, monkeypatch, caplog):
    monkeypatch.setattr(loop, "_STORE_PAUSE_S", 0.1)
    unwritable(store, sound(store))
    with caplog.at_level(logging.INFO):
        tools = serve(store, Counting)
    assert 2 <= tools.asked <= 5
    assert len([record for record in caplog.records if record.name == loop.__name__]) == 1


def test_a_store_that_cannot_be_read_for_long_is_logged_once(store, monkeypatch, caplog):
    monkeypatch.setattr(loop, "_STORE_PAUSE_S", 0.1)
    raw(store, "ALTER TABLE inbox RENAME TO gone")
    with caplog.at_level(logging.INFO):
        serve(store)
    assert len([record for record in caplog.records if record.name == loop.__name__]) == 1


def test_a_decision_that_cannot_be_carried_out_is_refused(store):
    waiting = begun(store, StateChanged(SessionState.STOPPED))
    number = store.submit(waiting, Decision(DecisionKind.STANDING, text="short names"))
    serve(store, Failing)
    assert "no room for a scratch folder" in store.ticket(number).refusal
    assert status(store, waiting) is SessionState.STOPPED


def test_a_session_takes_its_decisions_beside_one_that_it_cannot_read(store):
    session = begun(store, StateChanged(SessionState.AWAITING_REVIEW))
    strange = store.submit(session, Decision(DecisionKind.RESUME))
    stop = store.submit(session, Decision(DecisionKind.STOP))
    raw(store, "UPDATE inbox SET payload = '{}' WHERE id = ?", strange)
    assert Session(store, session, Cold(store).of_session(session)).run().status is SessionState.STOPPED
    assert store.ticket(stop) == (True, "")
    assert "cannot be read" in store.ticket(strange).refusal


class Meanwhile(Cold):
    """A decision of another version arrives while a session is taken up, which then fails."""

    def at_work(self, session):
        number = self.store.submit(session, Decision(DecisionKind.RESUME))
        raw(self.store, "UPDATE inbox SET payload = '{}' WHERE id = ?", number)
        raise OSError("no room for a scratch folder")


def test_a_session_that_fails_beside_a_decision_that_cannot_be_read_is_interrupted(store):
    session = begun(store)
    serve(store, Meanwhile)
    assert status(store, session) is SessionState.INTERRUPTED
    assert store.waiting() == []


def test_an_engine_outlives_a_store_that_cannot_be_read_for_a_while(store, monkeypatch):
    fine = sound(store)
    raw(store, "ALTER TABLE inbox RENAME TO gone")
    with serving(store, monkeypatch):
        raw(store, "ALTER TABLE gone RENAME TO inbox")
    assert status(store, fine) is SessionState.EXHAUSTED


def looked_at(store, key, study, *ending, **changes):
    """Return a session whose kernel the person wants a look at; the engine was killed before it had any."""
    promoted = (
        StepStarted(1, None), Proposed(1, key, Author.PERSON, "by hand", parent=key), TrialStarted(1, key),
        Tried(1, key, "", Status.PASSED), StepClosed(1, Outcome.PROMOTED),
    )  # fmt: skip
    return begun(
        store, *promoted, *ending, Decided(Decision(DecisionKind.STUDY, candidate=key, study=study)), **changes
    )


@pytest.mark.parametrize("ended", [SessionState.AWAITING_REVIEW, SessionState.STOPPED, SessionState.ACCEPTED])
def test_a_wanted_look_outlives_the_engine(store, ended):
    key = store.put("a kernel")
    profiled = looked_at(store, key, StudyKind.PROFILE, StateChanged(ended))
    ablated = looked_at(store, key, StudyKind.ABLATION, StateChanged(ended))
    serve(store)
    one, other = state_of(store, profiled), state_of(store, ablated)
    assert one.studies_wanted == other.studies_wanted == ()
    assert "needs a GPU" in one.study(StudyKind.PROFILE, key).message
    assert "fewer than two hunks" in other.study(StudyKind.ABLATION, key).message
    assert (one.status, other.status) == (ended, ended)


@pytest.mark.parametrize("study", [StudyKind.PROFILE, StudyKind.ABLATION])
@pytest.mark.parametrize("ended", [SessionState.STOPPED, SessionState.READY])
def test_an_imported_session_is_never_gone_on_with(store, study, ended):
    key = store.put("a kernel")
    session = looked_at(store, key, study, StateChanged(ended), origin="imported from a.jsonl")
    before = store.last_seq(session)
    number = store.submit(session, Decision(DecisionKind.STUDY, candidate=key, study=study))
    serve(store)
    assert store.last_seq(session) == before
    assert "read-only" in store.ticket(number).refusal


def test_a_look_that_fails_is_answered_and_leaves_the_session_as_it_was(store):
    key = undecodable(store)
    session = looked_at(store, key, StudyKind.PROFILE, StateChanged(SessionState.STOPPED))
    serve(store)
    state = state_of(store, session)
    assert (state.status, state.studies_wanted) == (SessionState.STOPPED, ())
    assert "UnicodeDecodeError" in state.study(StudyKind.PROFILE, key).message


def test_a_look_at_a_kernel_whose_problem_fails_says_so(store):
    broken = store.put_record(replace(library.load("relu"), source="class Model(torch.nn.Module:\n"))
    key, over = store.put("a kernel"), StateChanged(SessionState.STOPPED)
    profiled = looked_at(store, key, StudyKind.PROFILE, over, problem=broken)
    ablated = looked_at(store, key, StudyKind.ABLATION, over, problem=broken)
    serve(store)
    one, other = state_of(store, profiled), state_of(store, ablated)
    assert (one.status, other.status) == (SessionState.STOPPED, SessionState.STOPPED)
    assert "not valid Python" in one.study(StudyKind.PROFILE, key).message
    assert "not valid Python" in other.study(StudyKind.ABLATION, key).message


def test_the_judges_of_a_session_at_work_stay_however_many_ask(store):
    tools = Cold(store)
    settings = SessionSettings(
        store.put_record(library.load("relu")), "relu", AnsweredBy.PERSON, ExecutorKind.CPU, "sm_90a", "H100"
    )

    def scratch(owner):
        return tools.evaluator(owner, settings).reference.scratch

    try:
        with tools.at_work("long"):
            kept = scratch("long")
            others = [scratch(f"other {number}") for number in range(5)]
            assert kept.exists()
            assert [path.exists() for path in others] == [False, False, False, True, True]
        scratch("last")
        assert not kept.exists()
    finally:
        tools.close()


def test_an_engine_leaves_when_a_newer_version_has_migrated_the_store(store, monkeypatch, caplog):
    monkeypatch.setattr(single, "client_age_s", lambda: 0.0)
    with serving(store, monkeypatch):  # for as long as there is a client, but for what comes now
        raw(store, "PRAGMA user_version = 1000")
    assert "a newer workbench has migrated the store" in caplog.text
    assert len(caplog.records) == 1


# ---- the disk


def failing(error):
    def fail(*_args, **_more):
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE])
def test_the_keeper_of_the_engine_outlives_an_error_of_the_disk(store, monkeypatch, caplog, error):
    started = []
    monkeypatch.setattr(single.subprocess, "Popen", lambda *_, **__: started.append(1))
    stop = threading.Event()
    with monkeypatch.context() as broken:
        broken.setattr(single.os, "open", failing(error))
        keeper = threading.Thread(target=engine.keep_running, args=(stop, 0.02))
        keeper.start()
        wait_until(lambda: caplog.records)
        assert keeper.is_alive()
        assert started == []
    wait_until(lambda: started)
    stop.set()
    keeper.join(PATIENCE_S)
    said = [record.getMessage() for record in caplog.records]
    assert sum(os.strerror(error) in line for line in said) == 1, "logged once"


def test_a_store_that_was_deleted_is_said_and_the_engine_leaves(store, monkeypatch, caplog):
    monkeypatch.setattr(single, "client_age_s", lambda: 0.0)
    with serving(store, monkeypatch):
        store.path.unlink()
    assert "was deleted or replaced while the workbench ran" in caplog.text
    for use in (store.sessions, lambda: store.put("x"), store.version, lambda: store.events("x")):
        with pytest.raises(StoreGoneError, match="Put it back, or go on with an empty one"):
            use()


def test_a_store_that_was_replaced_is_not_written(store, tmp_path):
    other = Store(tmp_path / "other.db")
    other.close()
    (tmp_path / "other.db").replace(store.path)
    with pytest.raises(StoreGoneError):
        store.put("x")
    assert Store(store.path).sessions() == ()


def run_engine():
    """Start an engine that prepares nothing: in this workspace it would begin to build the emulator."""
    return subprocess.Popen([sys.executable, "-m", "tests.engine.double_engine"], stderr=subprocess.PIPE, text=True)


def test_an_engine_whose_lock_was_deleted_leaves_to_the_next_one(store):
    engine.touch_client()
    lock = workspace.home() / "engine.lock"
    with run_engine() as first:
        wait_until(lambda: lock.exists() and lock.read_text() == str(first.pid))
        lock.unlink()
        said = first.communicate(timeout=PATIENCE_S)[1]
    assert "the lock of" in said
    assert "leaving, so that no two engines serve it" in said


def test_an_engine_that_has_ended_is_nobodys_zombie(store):
    """It may have ended for want of clients, and this process starts no other."""
    before = descendants(os.getpid())
    engine.ensure_running()
    (started,) = descendants(os.getpid()) - before
    os.kill(started, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{started}").exists(), "it is not reaped")


def test_what_a_killed_engine_left_is_swept(store):
    home = workspace.home()
    (home / "tmp" / "cutegen-run-1").mkdir(parents=True)
    (home / "tmp" / "cutegen-run-1" / "spec").write_text("left")
    old, new = (home / "cache" / "emulator" / "builds" / f"build-{age}" for age in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    engine.touch_client()
    with run_engine() as started:
        wait_until(lambda: not (home / "tmp" / "cutegen-run-1").exists() and not old.exists())
        started.terminate()
        started.communicate(timeout=PATIENCE_S)
    assert new.exists()
