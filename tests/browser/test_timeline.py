"""The timeline in a browser: a click, a key and an arrow open a step, two are compared; markup stays text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import drawn, settled, shortcut, title_of
from tests.pages.gpu_stories import branched_story
from tests.pages.stories import HOSTILE, Story
from tests.patience import SOON_S, wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


_EACH_AT_ITS_ROW = """steps => {
  const rows = [...steps.querySelectorAll("li")].map((one) => one.getBoundingClientRect().y);
  const points = [...steps.querySelectorAll(".tree .point")].map((one) => one.getBoundingClientRect());
  const middles = points.map((at) => at.y + at.height / 2);
  return rows.length === middles.length && middles.every((y, i) => rows[i] <= y && y <= rows[i] + 25);
}"""


def row(page: Page, number: int) -> Locator:
    return page.get_by_role("link", name=f"Step {number}:")


def shows(page: Page, number: int) -> None:
    expect(title_of(page)).to_contain_text(f"Step {number}")
    expect(row(page, number)).to_have_attribute("aria-current", "step")


def tree_is_drawn(page: Page) -> None:
    """Expect every point at its row, the way to the best told from the other lines."""
    expect(page.locator(".tree .line")).to_have_count(12)
    expect(page.locator(".tree .line.way")).to_have_count(5)
    expect(page.locator(".tree polygon.best")).to_have_count(1)
    expect(page.locator(".tree .point.failed")).to_have_count(3)
    wait_until(lambda: page.locator(".steps").evaluate(_EACH_AT_ITS_ROW), "a point is not at its row", SOON_S)


@pytest.mark.thorough
def test_steps_are_opened_by_click_key_and_arrow_and_compared(server: Server, page: Page) -> None:
    session = branched_story(Store(server.home / "store.db")).session
    page.goto(f"{server.url}/session?id={session}&step=11")
    shows(page, 11)
    tree_is_drawn(page)
    row(page, 3).click()
    shows(page, 3)
    expect(page).to_have_url(re.compile("step=3"))
    assert row(page, 5).get_attribute("href") == f"?id={session}&step=5"
    shortcut(page, "n")
    shows(page, 4)
    shortcut(page, "o")
    shows(page, 3)
    drawn(page)
    row(page, 3).focus()
    for key, number in (
        ("ArrowUp", 4),
        ("ArrowLeft", 3),
        ("ArrowLeft", 1),
        ("ArrowRight", 5),
        ("End", 1),
        ("Home", 12),
    ):
        page.keyboard.press(key)
        expect(row(page, number)).to_be_focused()
    page.keyboard.press("Enter")
    shows(page, 12)
    expect(row(page, 12)).to_be_focused()
    expect(page.locator(".steps a[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Compare step 12 with the best")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"compare\?a={session}\.11&b={session}\.12"))
    expect(page.get_by_text("lines added").first).to_be_visible()
    page.go_back()  # one switch of pages is one press of Back
    shows(page, 12)
    expect(page).to_have_url(re.compile(rf"session\?id={session}&step=12"))
    # Any two are compared by a drag, or by a key.
    settled(page)
    row(page, 7).drag_to(row(page, 3))
    expect(page).to_have_url(re.compile(rf"compare\?a={session}\.3&b={session}\.7"))
    page.go_back()
    shows(page, 12)
    settled(page)
    row(page, 3).focus()
    page.keyboard.press("Shift+Enter")
    expect(page).to_have_url(re.compile(rf"compare\?a={session}\.3&b={session}\.12"))


@pytest.mark.thorough
def test_ideas_with_markup_are_text(server: Server, page: Page) -> None:
    story = Story(Store(server.home / "store.db")).begin()
    story.propose("no plan", HOSTILE)
    page.goto(f"{server.url}/session?id={story.session}")
    expect(row(page, 1).locator(".idea")).to_have_text(HOSTILE)
    assert page.title() != "owned"
    assert page.locator(".steps img").count() == 0
