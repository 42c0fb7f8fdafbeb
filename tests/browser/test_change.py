"""The change in a browser: hunks by key, folded lines, the map, the reference."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import line_of, settled, shortcut, widget_of
from tests.pages.gpu_stories import gpu_story
from tests.pages.test_centre import at_the_diff_gate
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def seen(page: Page, text: str) -> Locator:
    """Return the line of code with this text, within the pane."""
    return page.locator(".st-key-code-pane tr", has_text=text).first


def in_pane(page: Page, text: str) -> bool:
    inside: bool = seen(page, text).evaluate("""row => {
      const [at, pane] = [row.getBoundingClientRect(), row.closest(".st-key-code-pane").getBoundingClientRect()];
      return at.height > 0 && at.top >= pane.top && at.bottom <= pane.bottom;
    }""")
    return inside


@pytest.mark.thorough
def test_the_change_is_walked_by_key_and_unfolded(server: Server, store: Store, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 640})
    page.goto(f"{server.url}/session?id={at_the_diff_gate(store).session}")
    settled(page)
    at = page.locator(".cg-at")
    expect(at).to_have_text("· 3 hunks")
    assert in_pane(page, "c += BLOCK * 4")
    expect(page.locator(".st-key-code-pane")).to_contain_text("launch plan (hunk 1)")
    expect(seen(page, "[params]")).to_be_hidden()

    shortcut(page, "j")
    expect(at).to_have_text("· hunk 2 of 3")
    shortcut(page, "j")
    expect(at).to_have_text("· hunk 3 of 3")
    shortcut(page, "Shift+J")
    shortcut(page, "Shift+J")
    expect(at).to_have_text("· hunk 1 of 3")
    expect(seen(page, "one pass, 128-bit loads")).to_be_visible()  # the plan opened itself
    shortcut(page, "u")
    expect(seen(page, "block_reduce(float value")).to_be_visible()
    shortcut(page, "u")
    expect(seen(page, "block_reduce(float value")).to_be_hidden()
    widget_of(page, "checkbox", re.compile("unchanged line")).first.press("Space")
    expect(seen(page, "block_reduce(float value")).to_be_visible()
    assert page.locator(".map .mark.add").count() >= 2

    # A typed J is a letter.
    line_of(page).type("j")
    expect(at).to_have_text("· hunk 1 of 3")

    shortcut(page, "y")
    expect(page.locator(".st-key-reference-pane")).to_contain_text("class Model(nn.Module)")
    expect(page).to_have_url(re.compile("reference=1"))
    shortcut(page, "y")
    expect(page.locator(".st-key-reference-pane")).to_have_count(0)


@pytest.mark.thorough
def test_a_link_into_the_folded_plan_unfolds_it(server: Server, store: Store, page: Page) -> None:
    page.goto(f"{server.url}/session?id={gpu_story(store).session}&step=5&view=source#L9")
    expect(page.locator("#L9")).to_be_visible()
    expect(page.locator("#L9")).to_be_in_viewport()
