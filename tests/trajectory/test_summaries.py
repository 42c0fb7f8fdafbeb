"""A list of sessions reads what was stored with the events, and it is always what the events fold to."""

import gzip
import shutil
import time

import pytest

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import (
    Decided,
    Outcome,
    Proposed,
    Recorded,
    SessionCreated,
    SessionSettings,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    TrialStarted,
    Tried,
)
from cutegen_core.records.trial import Status
from cutegen_core.trajectory import read, summaries
from cutegen_core.trajectory.grown import Grown
from cutegen_core.trajectory.read import every_summary, summary_of
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.summaries import load, summarise
from cutegen_core.trajectory.transitions import fold
from tests.places import DATA
from tests.session.scripted import scripted

NAIVE, BETTER = "// naive\n", "// better\n"
BROKEN = "// broken\n// status COMPILE_ERROR\n"
SETTINGS = SessionSettings("0" * 64, "relu", "playbook", "cpu", "sm_90a", "H200")


@pytest.fixture
def old(tmp_path):
    """A store of earlier code, with every outcome and state a session can come to."""
    path = tmp_path / "store.db"
    with gzip.open(DATA / "store-v0" / "store.db.gz") as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    store = Store(path)
    yield store
    store.close()


@pytest.fixture
def folds(monkeypatch):
    """The sessions whose events were folded for a list."""
    folded = []
    real = read.state_of
    monkeypatch.setattr(read, "state_of", lambda store, session: folded.append(session) or real(store, session))
    return folded


def test_an_old_store_gets_its_summaries_from_the_first_list_and_folds_nothing_for_the_next(old, folds):
    first = every_summary(old)
    assert folds == list(old.sessions())
    assert first == {session: summarise(fold(old.events(session))) for session in old.sessions()}
    folds.clear()
    assert every_summary(old) == first == every_summary(Store(old.path))
    assert folds == []


def test_every_append_of_the_loop_stores_the_summary_of_its_events(tmp_path, monkeypatch):
    kept = []
    real = Store.append

    def append(store, session, events, **rest):
        recorded = real(store, session, events, **rest)
        (listed,) = store.listed(session)
        assert load(listed.summary) == summarise(fold(store.events(session)))
        kept.append(len(recorded))
        return recorded

    monkeypatch.setattr(Store, "append", append)
    with scripted(tmp_path, NAIVE, BROKEN, BETTER) as desk:
        session = desk.start()
        assert summary_of(desk.store, session).works
        desk.go(session)
        desk.approve(session)
        desk.approve(session)
        desk.decide(session, DecisionKind.REWIND, step=1)
        desk.decide(session, DecisionKind.STOP)
    assert len(kept) > 20


def test_a_new_and_an_imported_session_have_one_at_once(tmp_path, folds):
    store = Store(tmp_path / "store.db")
    first = store.create_session(SessionCreated(SETTINGS))
    other = store.adopt([*store.events(first), Recorded(2, 1.0, StateChanged(SessionState.STOPPED, "over"))])
    assert [said.status for said in every_summary(store).values()] == [SessionState.STOPPED, SessionState.READY]
    assert list(every_summary(store)) == [other, first]
    assert folds == []
    store.close()


def test_one_that_lags_behind_the_events_is_made_again(tmp_path):
    store = Store(tmp_path / "store.db")
    session = store.create_session(SessionCreated(SETTINGS))
    store.append(session, [StepStarted(1, None)], after=1)
    assert store.listed(session)[0].summary == ""
    assert summary_of(store, session).steps == 1
    assert store.listed(session)[0].summary
    store.close()


def test_one_of_other_code_is_made_again(tmp_path, monkeypatch, folds):
    store = Store(tmp_path / "store.db")
    session = store.create_session(SessionCreated(SETTINGS))
    digest = summaries.fold_digest()
    monkeypatch.setattr("cutegen_core.trajectory.store.fold_digest", lambda: "0" * 64)
    assert every_summary(store)[session].steps == 0
    assert folds == [session]
    assert store.query("SELECT made_by FROM summaries") == [("0" * 64,)] != [(digest,)]
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET payload = '{}' WHERE session = ? AND seq = 1",
        "DELETE FROM events WHERE session = ? AND seq = 1",
    ],
)
def test_one_whose_events_were_changed_is_dropped(tmp_path, change):
    store = Store(tmp_path / "store.db")
    session = store.create_session(SessionCreated(SETTINGS))
    kept = store.create_session(SessionCreated(SETTINGS))
    store.change(change, (session,))
    found = every_summary(store)
    assert isinstance(found[session], StoreError)
    assert found[kept].status is SessionState.READY
    assert list(views.unreadable_sessions(store)) == [session]
    store.close()


def test_who_looks_on_sees_a_list_and_writes_none(old):
    before = every_summary(old)
    old.change("DELETE FROM summaries")
    looks_on = Store(old.path, read_only=True)
    assert every_summary(looks_on) == before
    assert old.query("SELECT * FROM summaries") == []
    looks_on.close()


def test_events_that_cannot_be_folded_are_not_written(tmp_path):
    store = Store(tmp_path / "store.db")
    session = store.create_session(SessionCreated(SETTINGS))
    state = read.state_of(store, session)
    with pytest.raises(StoreError, match="unexpected event session_created"):
        read.append(store, session, state, [SessionCreated(SETTINGS)])
    assert store.last_seq(session) == 1
    store.close()


# ---- the fold


def events_of(steps):
    """Return steps that are promoted, refuted, rewound and noted in turn: whatever looks through the steps before."""
    found = [SessionCreated(SETTINGS)]
    for number in range(1, steps + 1):
        key = f"{number:064}"
        found += [
            StepStarted(number, None), Proposed(number, key, "model", "idea"), TrialStarted(number, key),
            Tried(number, key, key, Status.PASSED), StepClosed(number, Outcome.PROMOTED),
        ]  # fmt: skip
        if number % 5 == 0:
            found.append(Decided(Decision(DecisionKind.REWIND, 0, step=number)))
            found.append(Decided(Decision(DecisionKind.BRANCH, 0, step=number)))
    return [Recorded(seq, float(seq), event) for seq, event in enumerate(found, 1)]


def cpu_s(events):
    begun = time.process_time()
    fold(events)
    return time.process_time() - begun


@pytest.mark.parametrize("steps", [80, pytest.param(200, marks=pytest.mark.thorough)])
def test_the_fold_takes_time_in_proportion_to_the_events(steps):
    """The core may change its speed between two measurements, so a pair that is too far apart gets nine more tries."""
    few, many = events_of(steps), events_of(8 * steps)
    times = []
    while len(times) < 10 and (not times or min(times) > 8 * 1.7):
        times.append(cpu_s(many) / cpu_s(few))
    assert min(times) < 8 * 1.7, f"{len(many) / len(few):.0f} times as many events take {min(times):.0f} times as long"


def test_what_grows_from_one_place_twice_does_not_mix():
    one = Grown((1, 2))
    left, right = one.and_one(3).and_one(4), one.and_one(5).and_one(6)
    assert (one, left, right) == ((1, 2), (1, 2, 3, 4), (1, 2, 5, 6))
    assert left.with_last(9) == (1, 2, 3, 9)
    assert left == (1, 2, 3, 4)
    assert (left[-1], left[0], left[1:3], list(reversed(left))) == (4, 1, (2, 3), [4, 3, 2, 1])
    assert (len(Grown()), list(Grown()), bool(Grown()), Grown().and_one(1)) == (0, [], False, (1,))
    for at in (4, -5):
        with pytest.raises(IndexError):
            left[at]
