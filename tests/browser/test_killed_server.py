"""kill -9 of the served application at a commit of what was pressed in Chromium, with and without its engine.

The server is started again and the page loaded again: what had been acknowledged is shown, nothing is lost, no call of
the model is paid twice and no trial is run twice.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import Decided, ModelAnswered, ModelCalled, Recorded, SessionState, Tried
from cutegen_core.records.trial import Trial
from cutegen_core.session.proposing import LOST_CALL
from cutegen_core.trajectory.read import state_of as session_state
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from tests.browser.driving import press, shortcut, state_of
from tests.browser.test_model_loop import start_session
from tests.model_server import Answer, ModelServer, reply
from tests.model_server import Recorded as Request
from tests.pages.stories import KERNEL, Story
from tests.places import ROOT
from tests.serving import Server, no_engine

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

KILLING = ROOT / "tests" / "session" / "killing"
PATIENCE_S = 120
DYING_S = 1.0
WAITS = (SessionState.AWAITING_REVIEW, SessionState.INTERRUPTED, SessionState.ACCEPTED)


@pytest.fixture
def mortal(tmp_path: Path, workspace_home: Path) -> Iterator[Server]:
    """A server of this test alone, on the run's caches; it is not started yet."""
    (tmp_path / "cache").symlink_to(workspace_home / "cache")
    server = Server(tmp_path)
    yield server
    if server.process is not None:
        server.end()


def arm(server: Server, side: str, at: int) -> None:
    """Have the next process of the server killed before or after its `at`-th commit."""
    paths = os.pathsep.join([str(KILLING), str(ROOT)])
    server.environment = {"PYTHONPATH": paths, "CUTEGEN_KILLED": f"page {side} {at}"}


def is_dead(server: Server) -> bool:
    assert server.process is not None
    return server.process.poll() is not None


def steps_shown(page: Page) -> set[str]:
    """Return number and idea of each step in the list that has a kernel."""
    links = page.get_by_role("link", name=re.compile("^Step "))
    names = links.evaluate_all("all => all.map((at) => at.getAttribute('aria-label') || at.innerText)")
    return {str(name).split(" · ")[0] for name in names if "no kernel yet" not in name}


@pytest.mark.thorough
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_stop_that_the_server_did_not_outlive(mortal: Server, page: Page, side: str) -> None:
    arm(mortal, side, 1)
    with no_engine(mortal.home) if side == "before" else nullcontext():
        mortal.start()
        store = Store(mortal.home / "store.db")
        story = Story(store).begin(held=True)
        session = story.gate(Gate.DIFF, story.propose(KERNEL, "one block a row")).publish().session
        before = store.events(session)
        page.goto(f"{mortal.url}/session?id={session}")
        expect(state_of(page)).to_have_text("◆ awaiting review")
        press(page, "Stop")
        wait_for(lambda: is_dead(mortal))
        mortal.environment = {}
        mortal.start()
        page.reload()
        expect(state_of(page)).to_have_text({"before": "◆ awaiting review", "after": "■ stopped"}[side])
        events = store.events(session)
        assert events[: len(before)] == before
        assert sum(isinstance(r.event, Decided) for r in events[len(before) :]) == (side == "after")
        assert not store.waiting(session)
        store.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("side", "at", "with_engine"), [("after", 1, False), ("before", 2, False), ("after", 1, True), ("before", 2, True)]
)
def test_a_session_whose_server_is_killed_again_and_again(
    mortal: Server, page: Page, side: str, at: int, with_engine: bool
) -> None:
    """A person starts a session with a model, approves, accepts; the server dies at every commit, or every second."""
    arm(mortal, side, at)
    with ModelServer(play) as model:
        models = Models((ModelSettings("played", model.base_url, "test-model"),))
        model_settings.write(models, mortal.home / "models.toml")
        mortal.start()
        store = Store(mortal.home / "store.db")
        deaths = 0
        while not store.sessions():
            deaths += begin(mortal, page, store)
        (session,) = store.sessions()
        while (state := wait_for_person(store, session)).status is not SessionState.ACCEPTED:
            deaths += answer(mortal, page, store, state, with_engine=with_engine)
        expect(state_of(page)).to_have_text("✓ accepted")
        events = store.events(session)
        check_paid_once(store, events, model)
        store.close()
    decisions = [r.event.decision.kind for r in events if isinstance(r.event, Decided)]
    assert deaths >= len(decisions) // at, "the server died all the time"


def play(request: Request) -> Answer:
    """Answer as a model that reads its prompt."""
    if "three passes" in request.prompt:
        return reply("DONE: nothing left")
    return reply(f"Idea: seed\n```cpp\n{KERNEL}```\n")


def begin(server: Server, page: Page, store: Store) -> bool:
    """Press Start; return whether the server died of it."""
    start_session(page, server, wait_for_prompts=False)
    wait_for_effect(server, lambda: bool(store.sessions()))
    return revive(server, page, store)


def answer(server: Server, page: Page, store: Store, state: State, *, with_engine: bool) -> bool:
    """Answer as the page asks; return whether the server died of it, as then its engine does if that is wanted."""
    expect(state_of(page)).to_contain_text(state.status.value.lower().replace("_", " "), timeout=60_000)
    (session,) = store.sessions()
    events, shown = store.events(session), steps_shown(page)
    if state.status is SessionState.INTERRUPTED:
        assert state.reason == LOST_CALL
        press(page, "Resume")
    elif state.gate is not None and state.gate.gate is Gate.INSTRUCTION:
        press(page, "Accept")
    else:
        shortcut(page, "a")
    wait_for_effect(server, lambda: len(store.events(session)) > len(events))
    died = is_dead(server)
    if died and with_engine:
        with suppress(ProcessLookupError):  # that of an earlier life, where none has been started since
            server.kill_engine()
    revive(server, page, store)
    assert store.events(session)[: len(events)] == events, "nothing that was shown is lost"
    wait_for(lambda: shown <= steps_shown(page))
    return died


def revive(server: Server, page: Page, store: Store) -> bool:
    """Start the server again if it died, and load the page again; return whether it did."""
    if not is_dead(server):
        return False
    server.start()
    sessions = store.sessions()
    page.goto(f"{server.url}/session?id={sessions[0]}" if sessions else server.url)
    if sessions:
        expect(state_of(page)).to_be_visible()
    return True


def wait_for_person(store: Store, session: str) -> State:
    """Return the session's state once the engine waits for a person, with nothing waiting for the engine."""
    state = session_state(store, session)

    def waits() -> bool:
        nonlocal state
        state = session_state(store, session)
        return state.status in WAITS and not store.waiting(session)

    wait_for(waits)
    return state


def wait_for_effect(server: Server, done: Callable[[], bool]) -> None:
    """Wait until the server is dead, or it is done; a server that dies after its commit gets the time for it."""
    wait_for(lambda: is_dead(server) or done())
    assert server.process is not None
    with suppress(subprocess.TimeoutExpired):
        server.process.wait(DYING_S)


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.05)


def check_paid_once(store: Store, events: list[Recorded], model: ModelServer) -> None:
    assert [r.seq for r in events] == list(range(1, len(events) + 1))
    answers = [r.event for r in events if isinstance(r.event, ModelAnswered)]
    lost = sum(answer.error == LOST_CALL for answer in answers)
    assert len(answers) == sum(isinstance(r.event, ModelCalled) for r in events)
    assert len(answers) - lost <= len(model.asked) <= len(answers), "what was not lost is paid once"
    decisions = [r.event.decision for r in events if isinstance(r.event, Decided)]
    assert len({(d.kind, d.seen) for d in decisions}) == len(decisions), "no decision counts twice"
    tried = [r.event for r in events if isinstance(r.event, Tried) and not r.event.acceptance]
    run = [one.candidate for one in tried if not store.record(Trial, one.trial).cached]
    assert len(run) == len(set(run)), "no trial that was recorded is run again"
