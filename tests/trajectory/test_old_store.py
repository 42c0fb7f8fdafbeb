"""Data lasts: the store and the recordings that earlier code wrote open, and say what they said then.

`tests/data/store-v0` holds a store of the last commit without a schema version, and what that commit said about it and
about the shipped recordings; `write.py` there made all of it.
"""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.propose.cutegen.strategy import CutegenStrategy
from cutegen_core.propose.playbook.proposer import PlaybookProposer
from cutegen_core.propose.replay import ReplayProposer
from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.records.trial import Status
from cutegen_core.session.loop import Session
from cutegen_core.share import slides
from cutegen_core.share.exports import export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools
from tests.places import DATA, ROOT
from tests.shared_tools import ToolsOfTests
from tests.trajectory.said import said

OLD = DATA / "store-v0"
RECORDINGS = ROOT / "assets" / "recordings"
RENAMED = (
    (r'"rewound"', '"went back"'),
    (r'"used of a 32-byte (load|store)",(\s*[\d.]+,\s*)"byte"', r'"bytes used per 32 B sector, \1s",\2""'),
)
"""Words that have changed since; `records.older` reads the old ones."""


def then_said(name):
    text = (OLD / name).read_text()
    for old, new in RENAMED:
        text, changed = re.subn(old, new, text)
        assert changed or name == "recordings.json", f"{old} is not in the old data any more"
    return json.loads(text)


THEN = then_said("said.json")
OF_RECORDINGS = then_said("recordings.json")
TOOLS = {
    "playbook": (PlaybookProposer, "NoneType"),
    "llm": (CutegenStrategy, "ChatAnswers"),
    "manual": (CutegenStrategy, "NoneType"),
    "replay": (ReplayProposer, "ReplayProposer"),
}
"""Old name -> who proposes now, and the class of who answers (by name: to import all of them takes seconds)."""


def copied(folder: Path) -> Path:
    path = folder / "store.db"
    with gzip.open(OLD / "store.db.gz") as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return path


UNNAMED = "edited by hand"


def named(today, before):
    """Return the idea that a step has today: an edit is named when it is read, by what it changed."""
    return today["idea"] if before["idea"] == UNNAMED != today["idea"] else before["idea"]


def plain(value):
    """Return it as JSON gives it back."""
    return json.loads(json.dumps(value))


def assert_same(now, then):
    """Step by step: a difference is shown where it is."""
    steps = zip(now.pop("steps"), then.pop("steps"), strict=True)
    assert now == then
    for today, before in steps:
        assert today == before | {"idea": named(today, before)}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    opened = Store(copied(tmp_path_factory.mktemp("old")))
    yield opened
    opened.close()


@pytest.mark.parametrize("name", THEN)
def test_an_old_session_says_what_it_said(store, name):
    then = dict(THEN[name])
    assert_same(plain(said(store, then.pop("id"))), then)


def test_an_old_edit_is_named_by_what_it_changed(store):
    view = views.session_view(store, THEN["gpu"]["id"])
    named = "higher → higer, line 43"
    assert view.state.steps[3].idea == view.steps[3].idea == named
    deck = slides.deck(view)
    assert named in [getattr(slides.slide(store, deck, stop), "idea", "") for stop in deck.stops]


def test_the_old_store_holds_these_sessions_and_all_can_be_read(store):
    assert set(store.sessions()) == {then["id"] for then in THEN.values()}
    assert views.unreadable_sessions(store) == {}
    assert len(views.session_rows(store)) == len(THEN)


@pytest.mark.parametrize("name", [name for name, then in THEN.items() if then["proposer"] in TOOLS])
def test_an_old_session_gets_the_proposer_and_the_model_it_had(store, name):
    tools = Tools(store)
    session = THEN[name]["id"]
    state, bench = views.session_view(store, session).state, tools.of_session(session)
    proposer, model = TOOLS[THEN[name]["proposer"]]
    assert type(bench.proposer(state)) is proposer
    assert type(bench.model(state)).__name__ == model
    tools.close()


@pytest.mark.slow
@pytest.mark.thorough
def test_an_old_session_goes_on_where_it_waited(tmp_path):
    """The approval that lay in the inbox is taken, and the kernel it was for is tried."""
    store = Store(copied(tmp_path))
    tools = ToolsOfTests(store)
    session = THEN["inbox"]["id"]
    state = Session(store, session, tools.of_session(session)).run()
    assert store.waiting(session) == []
    assert (state.step.number, state.step.candidate) == (1, THEN["inbox"]["gate"][1])
    assert state.step.status is Status.PASSED
    tools.close()
    store.close()


@pytest.mark.parametrize("name", THEN)
def test_an_old_session_is_recorded_and_read_back_with_its_verdicts(store, name, tmp_path):
    path = tmp_path / "session.jsonl.gz"
    export(store, THEN[name]["id"], "jsonl", path)
    elsewhere = Store(tmp_path / "elsewhere.db")
    back = said(elsewhere, import_path(elsewhere, path).session)
    kept = ("status", "idea", "outcome", "note", "refuted", "verdict")
    for today, before in zip(plain(back["steps"]), THEN[name]["steps"], strict=True):
        then = before | {"idea": named(today, before)}
        assert [today[key] for key in kept] == [then[key] for key in kept]
    elsewhere.close()


@pytest.mark.parametrize("name", OF_RECORDINGS)
def test_a_shipped_recording_says_what_it_said(tmp_path, name):
    store = Store(tmp_path / "store.db")
    assert_same(plain(said(store, import_path(store, RECORDINGS / name).session)), dict(OF_RECORDINGS[name]))
    store.close()


UP_TO_A_PROMOTION = ("merge-roles-h200.jsonl.gz",)
"""Recorded while the last kernel waited for its promotion."""


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.glob("*.jsonl.gz")))
def test_every_shipped_recording_opens_and_ends_accepted(tmp_path, name):
    store = Store(tmp_path / "store.db")
    view = views.session_view(store, import_path(store, RECORDINGS / name).session)
    assert view.state.status is (SessionState.STOPPED if name in UP_TO_A_PROMOTION else SessionState.ACCEPTED)
    assert view.state.best
    store.close()


def test_the_old_data_shows_every_outcome_and_status_of_a_session():
    """So that nothing a session can come to is left out of what is compared."""
    steps = [step for then in THEN.values() for step in then["steps"]]
    shown = {step["outcome"] for step in steps}
    assert {str(o) for o in Outcome} - shown == {str(Outcome.ADVANCED)}
    assert {str(s) for s in SessionState} - {then["status"] for then in THEN.values()} == {str(SessionState.READY)}
    assert {then["proposer"] for then in THEN.values()} == {*TOOLS, "imported"}
