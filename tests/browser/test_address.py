"""The address of the session page: links, Back and Forward, and clicks quicker than the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import button_of, field_of, shortcut, standing_still, title_of, widget_of
from tests.pages.stories import softmax_story
from tests.serving import Server, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def shows(page: Page, step: int, picture: str, pane: str, /, **address: str) -> None:
    """Expect the step, the picture and the pane on the screen, and these parameters and no others in the address."""
    expect(title_of(page)).to_contain_text(f"Step {step} ")
    for name in (picture, pane):
        expect(widget_of(page, "radio", name, exact=True)).to_be_checked()
    page.wait_for_function(
        "wanted => { const now = new URLSearchParams(location.search); now.delete('id');"
        " return JSON.stringify([...now].sort()) === wanted }",
        arg=str([[name, value] for name, value in sorted(address.items())]).replace("'", '"').replace(" ", ""),
    )


@pytest.mark.thorough
def test_quick_clicks_are_all_heard_and_back_goes_back(server: Server, own_tab: Page) -> None:
    page = own_tab  # a browser keeps no more than fifty entries of a tab's history
    session = softmax_story(Store(server.home / "store.db")).session
    page.goto(f"{server.url}/session?id={session}")
    shows(page, 5, "inline", "correctness")
    before = int(page.evaluate("history.length"))

    # Three clicks before the server has answered the first.
    with standing_still(server, page):
        button_of(page, "Older").click()
        widget_of(page, "radio", "resources").click()
        widget_of(page, "radio", "split").click()
    shows(page, 4, "split", "resources", step="4", pane="resources", view="split")
    assert parse_qs(urlparse(page.url).query)["id"] == [session]

    # Hunks switched by keys, one after the other; leaving them is one click and one entry of the history.
    shortcut(page, "k")
    expect(button_of(page, "✓ kept · hunk 1")).to_be_visible()
    shortcut(page, "1")
    expect(button_of(page, "✗ dropped · hunk 1")).to_be_visible()
    expect(page).to_have_url(re.compile("drop=1"))
    at_hunks = int(page.evaluate("history.length"))
    shortcut(page, "o")
    shows(page, 3, "inline", "resources", step="3", pane="resources")
    assert int(page.evaluate("history.length")) == at_hunks + 1
    assert before < at_hunks <= before + 5

    # Back and Forward, each once.
    page.go_back()
    expect(button_of(page, "✗ dropped · hunk 1")).to_be_visible()
    page.go_forward()
    shows(page, 3, "inline", "resources", step="3", pane="resources")
    page.go_back()
    page.go_back()
    expect(button_of(page, "✓ kept · hunk 1")).to_be_visible()
    page.go_back()
    shows(page, 4, "split", "resources", step="4", pane="resources", view="split")
    # What was on its way back is no wish of a click that comes right after.
    widget_of(page, "radio", "log").click()
    shows(page, 4, "split", "log", step="4", pane="log", view="split")


@pytest.fixture
def cold(tmp_path: Path, home: Path) -> Iterator[Server]:
    """A server that has shown nothing yet."""
    (tmp_path / "cache").symlink_to(home / "cache")
    with served(tmp_path) as server:
        yield server


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["server", "cold"])
def test_links_to_steps_that_are_there_and_that_are_not(kind: str, request: pytest.FixtureRequest, page: Page) -> None:
    server: Server = request.getfixturevalue(kind)
    session = softmax_story(Store(server.home / "store.db")).session
    page.goto(f"{server.url}/session?id={session}&step=2&pane=correctness")
    expect(title_of(page)).to_contain_text("Step 2 no barriers")
    expect(page.locator(".cg-table", has_text="race")).to_contain_text("partial")
    expect(page.get_by_role("link", name="Problems")).to_be_visible()
    page.goto(f"{server.url}/session?id={session}&step=99")
    expect(page.get_by_text("has no step “99”; it has 5 steps")).to_be_visible()
    page.get_by_role("link", name="Show the last step").click()
    shows(page, 5, "inline", "correctness")
    page.go_back()
    expect(page.get_by_text("has no step “99”; it has 5 steps")).to_be_visible()
    page.goto(f"{server.url}/session?id={session}&step=3&view=split&against=1&pane=resources")
    shows(page, 3, "split", "resources", step="3", view="split", against="1", pane="resources")
    expect(field_of(page, "Compare with")).to_have_value("step 1: one block a row, three passes")
