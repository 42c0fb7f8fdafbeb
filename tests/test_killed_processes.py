"""kill -9 of the real processes at commits of the journal: the engine again and again, and the command line.

`tests/session/test_killed.py` and `test_killed_calls.py` kill at every single commit; here nothing is scripted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutegen_core import engine
from cutegen_core.problems import library
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind
from cutegen_core.records.event import AnsweredBy, Decided, ModelAnswered, ModelCalled, Recorded, SessionState, Tried
from cutegen_core.records.trial import Trial
from cutegen_core.session import start
from cutegen_core.session.proposing import LOST_CALL
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from tests.model_server import Answer, ModelServer, reply
from tests.model_server import Recorded as Request
from tests.places import DATA, ROOT
from tests.serving import own_workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KILLING = ROOT / "tests" / "session" / "killing"
RELU = (DATA / "relu.cu").read_text()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace with the caches of the other tests, whose processes can be killed at a commit."""
    monkeypatch.syspath_prepend(str(KILLING))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(KILLING), str(ROOT)]))
    with own_workspace() as folder:
        yield folder
        monkeypatch.delenv("CUTEGEN_KILLED", raising=False)
        end_engine(folder)


def end_engine(folder: Path) -> None:
    lock = folder / "engine.lock"
    if engine.is_running():
        os.kill(int(lock.read_text()), 9)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cutegen_core.cli", *arguments, "--json"]


def deaths(home: Path) -> list[dict[str, int]]:
    """Return what was durable when a process died, for each death."""
    file = home / "deaths"
    return [json.loads(line)["events"] for line in file.read_text().splitlines()] if file.exists() else []


def check_nothing_lost(home: Path, events: list[Recorded], session: str) -> None:
    assert [r.seq for r in events] == list(range(1, len(events) + 1))
    durable = [seen.get(session, 0) for seen in deaths(home)]
    assert durable == sorted(durable), "the journal only grows"
    assert durable[-1] <= len(events)
    store = Store()
    tried = [r.event for r in events if isinstance(r.event, Tried) and not r.event.acceptance]
    run = [one.candidate for one in tried if not store.record(Trial, one.trial).cached]
    store.close()
    assert len(run) == len(set(run)), "no trial that was recorded is run again"


@pytest.mark.thorough
@pytest.mark.parametrize(("side", "at"), [("after", 12), ("before", 13), ("after", 17)])
def test_a_run_whose_engine_is_killed_again_and_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, side: str, at: int
) -> None:
    """A trial takes 12 commits here and begins anew after a kill: a shorter life would never end one."""
    monkeypatch.setenv("CUTEGEN_KILLED", f"engine {side} {at}")
    ran = subprocess.run(command("run", "--problem", "tanh", "--auto"), capture_output=True, text=True, timeout=800)
    assert json.loads(ran.stdout)["state"] == "ACCEPTED", ran.stderr
    store = Store()
    (session,) = store.sessions()
    events = store.events(session)
    check_nothing_lost(home, events, session)
    lives = len(deaths(home))
    assert lives >= max(2, len(events) // at - 1), "each life but the last ended in a kill"


def play(request: Request) -> Answer:
    """Answer as a model that reads its prompt."""
    if "isnan(in(i))" in request.prompt:
        return reply("DONE: nothing left", size=500)
    return reply(f"Idea: seed\n```cpp\n{RELU}```\n", size=500)


@pytest.mark.thorough
@pytest.mark.parametrize(("side", "first"), [("before", 6), ("after", 2), ("before", 2)])
def test_calls_of_an_engine_that_is_killed_are_not_paid_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch, side: str, first: int
) -> None:
    """Each life of the engine ends one commit later than the one before it."""
    with ModelServer(play) as server:
        model_settings.write(Models((ModelSettings("played", server.base_url, "test-model"),)))
        store = Store()
        session = start.create(store, library.load("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
        at, resumed_at = first, 0
        deadline = time.monotonic() + 600
        while (state := state_of(store, session)).status is not SessionState.ACCEPTED:
            assert time.monotonic() < deadline, state
            if not engine.is_running():
                monkeypatch.setenv("CUTEGEN_KILLED", f"engine {side} {at}")
                at += 1
                engine.ensure_running()
            if state.status is SessionState.INTERRUPTED and state.seq > resumed_at and not store.waiting(session):
                assert state.reason == LOST_CALL
                resumed_at = state.seq
                store.submit(session, Decision(DecisionKind.RESUME, state.seq))
            engine.touch_client()
            time.sleep(0.2)
        events = store.events(session)
        check_nothing_lost(home, events, session)
        assert len(deaths(home)) >= 2
        answers = [r.event for r in events if isinstance(r.event, ModelAnswered)]
        lost = sum(answer.error == LOST_CALL for answer in answers)
        resumed = [r.event for r in events if isinstance(r.event, Decided) and r.event.decision.kind == "resume"]
        assert len(answers) == sum(isinstance(r.event, ModelCalled) for r in events)
        assert len(answers) - lost <= len(server.asked) <= len(answers), "what was not lost is paid once"
        assert len(resumed) == lost, "a call is repeated only where a person says so"


@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.thorough)])
def test_a_command_that_is_killed_leaves_a_whole_session_or_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    recording = str(next((ROOT / "assets").rglob("*.jsonl*")))
    monkeypatch.setenv("CUTEGEN_KILLED", f"cli {side} 1")
    for number, arguments in enumerate((["import", recording], ["run", "--problem", "tanh", "--auto"])):
        ran = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=200)
        assert ran.returncode == -9, ran.stderr
        rows = json.loads(subprocess.run(command("sessions"), capture_output=True, text=True, timeout=200).stdout)
        assert len(rows) == (number + 1 if side == "after" else 0)
    monkeypatch.delenv("CUTEGEN_KILLED")
    imported = json.loads(subprocess.run(command("import", recording), capture_output=True, text=True).stdout)
    assert imported["steps"] > 0
    if side == "after":  # whoever comes next has it carried on
        store = Store()
        engine.ensure_running()
        deadline = time.monotonic() + 200
        while [state_of(store, s).status for s in store.sessions()].count(SessionState.ACCEPTED) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough)])
def test_a_run_that_is_ended_stops_its_session(home: Path, number: signal.Signals) -> None:
    running = subprocess.Popen(command("run", "--problem", "tanh", "--auto"), stderr=subprocess.PIPE, text=True)
    store = Store()
    begun = time.monotonic()
    while not store.sessions():
        assert time.monotonic() < begun + 100
        time.sleep(0.02)
    running.send_signal(number)
    _, said = running.communicate(timeout=100)
    assert running.returncode == 2, said
    assert "interrupted" in said
    (session,) = store.sessions()
    while state_of(store, session).status is not SessionState.STOPPED:
        assert time.monotonic() < begun + 200, state_of(store, session).status
        time.sleep(0.1)
    store.close()
