"""A reload in every state shows what was there before it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.decision import Gate
from cutegen_core.records.event import Outcome, SessionState, StageEnded, StageStarted, StateChanged, TrialStarted
from cutegen_core.records.trial import Stage, StageResult, StageStatus
from cutegen_core.trajectory.store import Store
from tests.browser.driving import button_of, engine_held, settled, state_of, title_of, widget_of
from tests.later import Later
from tests.pages.stories import KERNEL, ONE_PASS, Story, passed, softmax_story
from tests.patience import SOON_S, wait_until
from tests.serving import Server

live_log = Later("pages.components.session.live_log")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

_PICTURE = """() => {
  const texts = (of) => [...document.querySelectorAll(of)].map((at) => at.innerText.trim());
  return {
    header: texts(".cg-header"), rail: texts(".cg-stop"), title: texts(".cg-step-title"), notes: texts(".cg-note"),
    radios: texts('[role="radio"][aria-checked="true"]'), tables: texts(".cg-table"),
    bar: [...document.querySelectorAll('[data-testid="stBottom"] button')].map((at) => [at.innerText, at.disabled]),
  };
}"""


def at_the_diff_gate(store: Store) -> Story:
    story = Story(store).begin(held=True)
    seed = story.propose(KERNEL, "one block a row, three passes")
    story.test(passed(store, seed)).promote(seed)
    return story.gate(Gate.DIFF, story.propose(ONE_PASS, "one pass")).publish()


def ended(store: Store, state: SessionState, reason: str) -> Story:
    story = softmax_story(store)
    if state is SessionState.ACCEPTED:
        story.close(Outcome.FAILED)
    return story.add(StateChanged(state, reason))


STATES = {
    "◆ awaiting review": at_the_diff_gate,
    "■ stopped": lambda store: ended(store, SessionState.STOPPED, "stopped by the person"),
    "▲ interrupted": lambda store: ended(store, SessionState.INTERRUPTED, "the compiler's process has ended"),
    "▲ exhausted": lambda store: ended(store, SessionState.EXHAUSTED, "the budget of 40 steps is used up"),
    "✓ accepted": lambda store: ended(store, SessionState.ACCEPTED, "passed again with fresh inputs"),
}


def in_a_trial(store: Store) -> Story:
    """Make a session in which the compiler is at work; only while no engine runs."""
    story = Story(store).begin(held=True)
    key = story.propose(KERNEL, "one block a row, three passes")
    patched = StageEnded(1, StageResult(Stage.PATCH, StageStatus.PASSED, 0.01))
    story.add(StateChanged(SessionState.RUNNING), TrialStarted(1, key), StageStarted(1, Stage.PATCH), patched)
    return story.add(StageStarted(1, Stage.COMPILE)).publish()


_LOGS_HEIGHT = "() => document.querySelector('.st-key-live-log').getBoundingClientRect().height"


@pytest.mark.thorough
def test_a_running_trial_shows_its_log_after_a_reload_too(server: Server, store: Store, page: Page) -> None:
    with engine_held(server):
        story = in_a_trial(store)
        store.set_live(story.session, "\n".join(f"line {number} of the compiler" for number in range(40)))
        page.goto(f"{server.url}/session?id={story.session}")
        for _ in range(2):
            log = page.locator(".st-key-live-log")
            expect(log).to_contain_text("patch passed")
            expect(log).to_contain_text("line 39 of the compiler")
            expect(page.get_by_role("heading", name="compile · running")).to_be_visible()
            wait_until(lambda: page.evaluate(_LOGS_HEIGHT) <= live_log.HEIGHT_PX + 2, "the log grows", SOON_S)
            page.reload()
        store.append(story.session, [StateChanged(SessionState.STOPPED)], after=story.seq)


BY_DEFAULT = "◆ awaiting review"
"""The others have fewer buttons in the same places, and another word."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "state", [pytest.param(name, marks=() if name == BY_DEFAULT else pytest.mark.thorough) for name in STATES]
)
def test_a_reload_shows_the_same(server: Server, page: Page, state: str) -> None:
    session = STATES[state](Store(server.home / "store.db")).session
    page.goto(f"{server.url}/session?id={session}")
    before = picture(page, state)
    page.reload()
    wait_until(lambda: picture(page, state) == before, lambda: f"{picture(page, state)} is not {before}", SOON_S)


def picture(page: Page, state: str) -> dict[str, list[str]]:
    """Return what is on the screen, once all of it is."""
    expect(state_of(page)).to_have_text(state)
    expect(title_of(page)).to_be_visible()
    expect(button_of(page, "Accept")).to_be_visible()
    expect(button_of(page, "Stop").or_(button_of(page, "Resume"))).to_be_visible()
    expect(widget_of(page, "radio")).not_to_have_count(0)
    settled(page)
    shown: dict[str, list[str]] = page.evaluate(_PICTURE)
    return shown
