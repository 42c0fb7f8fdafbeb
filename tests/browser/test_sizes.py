"""The pages in small and large windows: panes one at a time or all, nothing behind the bar, no word broken, no text too
small; and the outcome of a step in one line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import field_of, press, settled
from tests.browser.editing import editor_of
from tests.pages.gpu_stories import gpu_story, shapes_story
from tests.pages.stories import softmax_story
from tests.patience import SOON_S, wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SMALL: dict[str, Any] = {"width": 1024, "height": 768}
ZOOMED: dict[str, Any] = {"width": 960, "height": 600}
"""A window of 1440 x 900 at 150 %."""
PROJECTOR: dict[str, Any] = {"width": 1920, "height": 1080}
SIDES = {name: f".st-key-side-{name}" for name in ("steps", "kernel", "evidence")}

_SMALL_TEXTS = """() => {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    const size = parseFloat(getComputedStyle(one).fontSize);
    const hidden = !one.checkVisibility() || one.closest(".cg-heard, script, style, .pr-page");
    const margin = one.closest(".cg-ln, .cg-heat, .cg-sign");
    if (texts.currentNode.data.trim() && size < 12 && !hidden && !margin)
      found.push(`${size} px: ${texts.currentNode.data.trim().slice(0, 40)} in ${one.outerHTML.slice(0, 80)}`);
  }
  return found;
}"""
_BROKEN_WORDS = """() => {
  const found = [];
  for (const cell of document.querySelectorAll(".cg-table :is(td, th)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      for (const word of texts.currentNode.data.matchAll(/[\\w.%]{1,24}(?![\\w.%])/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.push(word[0]);
      }
  }
  return found;
}"""
_BEHIND_THE_BAR = """() => {
  const bar = document.querySelector("[data-testid=stBottom]").getBoundingClientRect().top;
  const main = document.querySelector("[data-testid=stMain]");
  const sides = [...document.querySelectorAll("[class*=st-key-side-]")];
  const behind = sides.filter((one) => one.checkVisibility() && one.getBoundingClientRect().bottom > bar + 1);
  if (main.scrollHeight > main.clientHeight + 1) behind.push(main);
  return behind.map((one) => one.className);
}"""


def never(page: Page, script: str, where: str) -> None:
    """Expect that nothing of what the script looks for is left once the page is drawn."""
    wait_until(lambda: page.evaluate(script) == [], f"{where}: {page.evaluate(script)}", SOON_S)


def side(page: Page, name: str) -> Locator:
    return page.locator(SIDES[name])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "size", [pytest.param(SMALL, id="1024"), pytest.param(ZOOMED, id="150 %", marks=pytest.mark.thorough)]
)
def test_a_small_window_has_one_pane_at_a_time_above_the_bar(
    server: Server, store: Store, page: Page, size: dict[str, Any]
) -> None:
    session = gpu_story(store).session
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.goto(f"{server.url}/session?id={session}")
    settled(page)
    expect(side(page, "evidence")).to_be_visible()  # a verdict waits for review
    expect(side(page, "kernel")).to_be_hidden()
    never(page, _BEHIND_THE_BAR, "evidence")
    never(page, _BROKEN_WORDS, "timing")
    page.locator(".cg-sides").get_by_text("Kernel", exact=True).click()
    expect(side(page, "kernel")).to_be_visible()
    expect(side(page, "evidence")).to_be_hidden()
    never(page, _BEHIND_THE_BAR, "kernel")
    page.keyboard.press("ArrowLeft")
    expect(side(page, "steps")).to_be_visible()
    expect(side(page, "kernel")).to_be_hidden()
    page.get_by_text("Kernel and evidence", exact=True).click()
    expect(side(page, "kernel")).to_be_visible()
    expect(side(page, "evidence")).to_be_visible()
    for name in ("Promote", "Edit & run", "Redirect", "Reject", "Stop"):
        expect(page.get_by_role("button", name=name).first).to_be_in_viewport(ratio=1)
    # What does not fit is a menu, and its keys work while it is closed.
    accept = page.get_by_role("button", name="Accept")
    expect(accept).to_be_hidden()
    field_of(page, "More decisions").focus()
    page.keyboard.press("Space")
    expect(accept).to_be_in_viewport(ratio=1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Rewind")).to_be_focused()
    page.locator(".cg-more label").click()
    expect(accept).to_be_hidden()
    press(page, "Edit & run")
    expect(editor_of(page)).to_be_visible()
    never(page, _SMALL_TEXTS, "editor")


def test_a_wide_window_shows_all_panes_and_a_projector_large_ones(server: Server, store: Store, page: Page) -> None:
    page.goto(f"{server.url}/session?id={gpu_story(store).session}&step=5")
    settled(page)
    tells(page, *TIMED)
    for name in SIDES:
        expect(side(page, name)).to_be_visible()
    expect(page.get_by_text("Kernel and evidence", exact=True)).to_be_hidden()
    never(page, _BEHIND_THE_BAR, "all panes")
    # Readable from the back of the room.
    page.set_viewport_size(PROJECTOR)  # type: ignore[arg-type]
    size = "one => parseFloat(getComputedStyle(one).fontSize)"
    for selector, least in ((".cg-outcome b", 20), (".cg-code td", 15), (".cg-table td", 15)):
        wait_until(
            lambda s=selector, m=least: page.locator(s).first.evaluate(size) >= m, f"{selector} is small", SOON_S
        )
    never(page, _BEHIND_THE_BAR, "projector")


PANES = ("correctness", "timing", "roofline", "profile", "sass", "resources", "log", "shapes", "prompt", "memory")


@pytest.mark.thorough
@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_no_text_is_too_small_and_no_table_breaks_a_word(
    server: Server, store: Store, page: Page, all_of_it: bool
) -> None:
    timed, shapes = gpu_story(store).session, shapes_story(store).session
    addresses = [f"session?id={shapes}&step=2&pane=shapes", "problems?name=softmax", f"compare?a={timed}.3&b={timed}.5"]
    if all_of_it:
        addresses += [f"session?id={timed}&step=5&pane={pane}" for pane in PANES]
        addresses += ["", "setup", "gnn", "layouts", f"session?id={timed}&step=7"]
    for size in (SMALL, {"width": 1440, "height": 900}) if all_of_it else (SMALL,):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for address in addresses:
            page.goto(f"{server.url}/{address}")
            settled(page)
            if address.startswith("session") and size is SMALL:
                page.get_by_text("Kernel and evidence", exact=True).click()
                expect(side(page, "evidence")).to_be_visible()
            never(page, _SMALL_TEXTS, f"{address} at {size['width']}")
            never(page, _BROKEN_WORDS, f"{address} at {size['width']}")


@pytest.mark.thorough
def test_source_and_machine_code_are_linked_both_ways(server: Server, store: Store, page: Page) -> None:
    page.goto(f"{server.url}/session?id={gpu_story(store).session}&step=5&pane=sass")
    settled(page)
    sass, source = page.locator(".st-key-sass-pane"), page.locator(".st-key-code-pane")
    link = sass.locator("a.cg-to-line").nth(12)
    line = link.inner_text()
    link.hover()
    marked = source.locator("tr.cg-linked")
    expect(marked).to_have_count(1)
    expect(marked.locator(f"[id='L{line}']")).to_have_count(1)
    link.click()
    expect(marked).to_be_in_viewport()
    first = sass.locator(f"tr.cg-at-{line}").first
    sass.evaluate("one => one.scrollTo({ top: one.scrollHeight })")
    source.locator(f"tr:has([id='L{line}']) td").last.click()
    expect(first).to_be_in_viewport()
    expect(first).to_have_class(re.compile(r"\bcg-linked\b"))


TIMED = ("Step 5", "✓ All 15 runs correct", "131.2 µs", "1.12x faster than eager", "promoted")


def tells(page: Page, *words: str) -> None:
    """Expect these words in the line that says what came of the step."""
    for word in words:
        expect(page.locator(".cg-outcome")).to_contain_text(word)


@pytest.mark.thorough
def test_one_line_says_what_came_of_the_step(server: Server, store: Store, page: Page) -> None:
    timed, plain = gpu_story(store).session, softmax_story(store).session
    steps = (
        (plain, ("✗ Wrong result: workload ragged", "◆ Continue without it?")),
        (f"{timed}&step=8", ("within noise of the previous best", "Passed. Check it yourself, then promote?")),
        (f"{plain}&step=3", ("not measured: needs a GPU", "✓ promoted")),
    )
    for address, words in steps:
        page.goto(f"{server.url}/session?id={address}")
        tells(page, *words)
