"""Every decision of the decide bar, by key and by click, on one session that a live engine carries on."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.event import Outcome, SessionState, StateChanged
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import fold
from tests.browser.driving import (
    button_of,
    decided,
    engine_held,
    leave_fields,
    line_of,
    press,
    say,
    state_of,
    stop_of,
    title_of,
)
from tests.browser.editing import editor_of, replace_text
from tests.pages.stories import HOSTILE, Story, not_compiled, softmax_story
from tests.patience import SOON_S, wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]

FIRST_EVER_MS = 240_000
"""The very first trial on a machine builds the emulator's headers."""


STILL_TYPING_MS = 1000
"""So long after typing in the editor its letters are not taken for answers (`assets/editor`: 0.8 s)."""


@pytest.mark.thorough
@pytest.mark.parametrize(("by", "own_source"), [("key", False), ("key", True), ("click", True)])
def test_every_decision_has_its_effect(server: Server, store: Store, page: Page, by: str, own_source: bool) -> None:
    session = softmax_story(store).session
    known = len(decided(store, session))
    page.goto(f"{server.url}/session?id={session}")
    if own_source:
        keep_hunks(page, by)
        edit_and_run(page, by)
    at = 8 if own_source else 6
    press(page, "Continue without it", "a", by=by)
    expect(title_of(page)).to_contain_text(f"Step {at}")
    expect(page.get_by_text("Review, then compile")).to_be_visible()

    # Without words neither of the two is an answer; what is missing is said.
    press(page, "Reject", "x", by=by)
    expect(page.get_by_text("Type a reason first")).to_be_visible()
    say(page, "reads every row twice")
    press(page, "Reject", "x", by=by)
    expect(title_of(page)).to_contain_text(f"Step {at + 1}")
    expect(line_of(page)).to_have_value("")
    say(page, "512 threads")
    press(page, "Redirect", "d", by=by)
    expect(title_of(page)).to_contain_text("instruction: “512 threads”")

    press(page, "Stop", "s", by=by)
    expect(state_of(page)).to_have_text("■ stopped")
    press(page, "Resume", "g", by=by)
    expect(state_of(page)).to_have_text("◆ awaiting review")

    # Back to a step, and on beside the best.
    press(page, "Older", "o", by=by)
    expect(title_of(page)).to_contain_text(f"Step {at + 1}")
    press(page, f"Rewind to {at + 1}", "w", by=by)
    expect(title_of(page)).to_contain_text(f"Step {at + 3}")
    press(page, f"Branch {at + 3}", "b", by=by)
    expect(title_of(page)).to_contain_text(f"Step {at + 4}")
    assert decided(store, session)[known:] == [
        *(["edit", "edit"] if own_source else []),
        "approve", "reject", "redirect", "stop", "resume", "rewind", "branch",
    ]  # fmt: skip
    state = fold(store.events(session))
    assert [step.note for step in state.steps if step.outcome is Outcome.REJECTED] == ["reads every row twice"]
    assert state.branched


@pytest.mark.thorough
def test_what_is_sent_is_shown_before_anybody_looks_at_it(server: Server, store: Store, page: Page) -> None:
    session = softmax_story(store).session
    page.goto(f"{server.url}/session?id={session}")
    expect(button_of(page, "Continue without it")).to_be_enabled()
    place = title_of(page).bounding_box()
    for label, key, kind, state in (("Stop", "s", "stop", "■ stopped"), ("Resume", "g", "resume", "◆ awaiting review")):
        with engine_held(server):
            press(page, label, key, by="key")
            expect(page.locator(".cg-waits").filter(has_text=f"Sent: {kind}")).to_be_visible()
            wait_until(lambda: title_of(page).bounding_box() == place, "something moves for it", SOON_S)
        expect(state_of(page)).to_have_text(state)
        expect(page.locator(".cg-sent")).to_be_hidden()


def keep_hunks(page: Page, by: str) -> None:
    """Drop one hunk of four; the rest is a candidate that goes through the stages."""
    press(page, "Keep hunks", "k", by=by)
    press(page, "✓ kept · hunk 1", "1", by=by)
    expect(button_of(page, "✗ dropped · hunk 1")).to_be_visible()
    press(page, "Keep 3 of 4 hunks", "k", by=by)
    expect(title_of(page)).to_contain_text("Step 6 kept 3 of 4 hunks")
    expect(page.get_by_text("Review the verdict")).to_be_visible(timeout=FIRST_EVER_MS)
    expect(stop_of(page, "TEST")).to_contain_text("failed")


def edit_and_run(page: Page, by: str) -> None:
    """Send what is no kernel: refused at once. Escape leaves the editor, where Tab indents."""
    press(page, "Edit & run", "e", by=by)
    expect(editor_of(page)).to_be_visible()
    replace_text(page, HOSTILE)
    if by == "click":
        button_of(page, "Run the edit").click()
    else:
        page.keyboard.press("Control+Enter")
    expect(title_of(page)).to_contain_text("Step 7 written anew: 1 line")
    expect(stop_of(page, "PATCH")).to_contain_text("failed")
    leave_fields(page)
    page.wait_for_timeout(STILL_TYPING_MS)


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["click", "key"])
def test_hunks_tried_apart_without_a_gpu_and_more_budget(server: Server, store: Store, page: Page, by: str) -> None:
    story = exhausted_story(store)
    page.goto(f"{server.url}/session?id={story.session}&pane=profile&view=hunks")
    expect(page.get_by_text("No profile: profiling needs a GPU")).to_be_visible()
    assert not button_of(page, "Profile").count()
    expect(state_of(page)).to_have_text("▲ exhausted")
    press(page, "Test each hunk", "t", by=by)
    table = page.locator(".cg-table", has_text="without it")
    expect(table).to_contain_text("✗ rejected", timeout=FIRST_EVER_MS)
    expect(page.get_by_text("Before the change: rejected")).to_be_visible()
    press(page, "Raise to 22 steps", "m", by=by)
    expect(page.locator(".cg-header")).to_contain_text("3 of 22")
    expect(page.get_by_text("Review, then compile")).to_be_visible(timeout=FIRST_EVER_MS)


def exhausted_story(store: Store) -> Story:
    """Make a session whose two steps are no kernels, so that what is built of their hunks is refused at once."""
    lines = [f"line {number}" for number in range(20)]
    story = Story(store).begin(held=True, max_steps=2)
    story.base = story.propose("\n".join(lines), "no kernel")
    story.test(not_compiled(story.base)).close(Outcome.FAILED)
    other = story.propose("\n".join(["first", *lines[1:-1], "last"]), "no kernel either")
    story.test(not_compiled(other)).close(Outcome.FAILED)
    return story.add(StateChanged(SessionState.EXHAUSTED, "the budget of 2 steps is used up")).publish()
