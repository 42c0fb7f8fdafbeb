"""Whoever cannot see well, or uses no mouse, can work here: axe on every page and state, focus, motion, zoom.

What we draw is clean. What Streamlit brings along is listed below, and the list is exact: a finding that is not in it
fails, and so does an entry that is found no more on any of the pages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import field_of, settled, shortcut
from tests.browser.editing import open_editor
from tests.pages.gpu_stories import gpu_story
from tests.pages.stories import softmax_story
from tests.patience import SOON_S, wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


class Known(NamedTuple):
    """A finding we cannot mend: axe's rule, a selector of the element, and whose it is."""

    rule: str
    selector: str
    why: str


STREAMLITS = (
    Known("presentation-role-conflict", "[data-testid=stFileUploaderDropzone]",
          "the drop zone is named and is called presentational at once; the button in it can be reached"),
)  # fmt: skip

PANES = ("roofline", "profile", "resources", "sass", "prompt", "memory")

# Further rows of long tables look like those before them.
_MORE = ".cg-code tr:nth-child(n+16), .cg-layout tr:nth-child(n+6), .cg-table tr:nth-child(n+20)"
_AXE = """async ([known, rules]) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const found = await axe.run({ include: document, exclude: [[MORE]] }, options);
  const element = (path) => path.flat().reduce((root, part) => (root.shadowRoot ?? root).querySelector(part), document);
  return found.violations.flatMap((one) => one.nodes.map((node) => ({
    rule: one.id,
    html: node.html.slice(0, 200),
    said: [...node.any, ...node.all, ...node.none].map((check) => check.message).join("; "),
    known: known.findIndex(([rule, selector]) => rule === one.id && element(node.target)?.closest(selector)),
  })));
}""".replace("MORE", json.dumps(_MORE))


class Checked:
    """Pages looked at by axe, and which known findings were found."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.found: set[int] = set()
        self.ours: list[str] = []

    def look(self, state: str, theme: str) -> None:
        """Look by all rules in the dark theme; in the light one only the colours differ."""
        rules = None if theme == "dark" else ["color-contrast"]
        if not self.page.evaluate("'axe' in globalThis"):
            self.page.evaluate(AXE_SCRIPT)
        asked = [[[k.rule, k.selector] for k in STREAMLITS], rules]
        deadline = time.monotonic() + SOON_S
        found = self.page.evaluate(_AXE, asked)
        while any(one["known"] < 0 for one in found) and time.monotonic() < deadline:
            self.page.wait_for_timeout(500)  # a page that is still being drawn fades in
            found = self.page.evaluate(_AXE, asked)
        for one in found:
            if one["known"] < 0:
                self.ours.append(f"{state}, {theme}: {one['rule']} {one['html']} {one['said']}")
            self.found.add(one["known"])


def in_light_colours(page: Page) -> None:
    """Have the page drawn again in the light theme, as it is when the visitor's machine changes over to it."""
    page.emulate_media(color_scheme="light")
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(255, 255, 255)")
    settled(page)


QUICK = "session, hunks"
"""What is looked at when there is little time."""


@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_axe_finds_nothing_of_ours(server: Server, store: Store, page: Page, all_of_it: bool) -> None:
    timed, plain, checked = gpu_story(store).session, softmax_story(store).session, Checked(page)
    for state in states(server, page, timed, plain, None if all_of_it else (QUICK,)):
        checked.look(state, "dark")
        in_light_colours(page)
        checked.look(state, "light")
        page.emulate_media(color_scheme="dark")
    assert not checked.ours, "\n".join(checked.ours)
    missing = [known for i, known in enumerate(STREAMLITS) if i not in checked.found]
    assert not (missing and all_of_it), f"Streamlit has mended it; take it off the list: {missing}"


def states(server: Server, page: Page, timed: str, plain: str, wanted: Container[str] | None) -> Iterator[str]:
    """Go through every page, and the session page's panes, views and dialogs, or those wanted."""
    addresses: Mapping[str, str] = {
        "start": "",
        "problems": "problems?name=softmax",
        "setup": "setup",
        "compare": f"compare?a={timed}.3&b={timed}.5",
        "present": f"present?id={timed}",
        "layouts": f"layouts?id={plain}&step=3",
        "session, compile log": f"session?id={plain}&step=4&pane=log&view=source",
        "session, correctness": f"session?id={plain}&pane=correctness&view=split",
        "session, sweep": f"session?id={timed}&step=7",
        "session, timing": f"session?id={timed}&step=5&pane=timing&view=inline",
        **{f"session, {pane}": f"session?id={timed}&step=5&pane={pane}" for pane in PANES},
    }
    for state, address in addresses.items():
        if wanted is None or state in wanted:
            page.goto(f"{server.url}/{address}")
            settled(page)
            if state == "start":  # drawn late
                expect(page.get_by_test_id("stFileUploaderDropzone")).to_be_visible()
            yield state
    for state, key in (("session, hunks", "k"), ("session, keys", "h")):
        if wanted is None or state in wanted:
            page.goto(f"{server.url}/session?id={timed}&step=5&pane=log")
            settled(page)
            shortcut(page, key)
            settled(page)
            yield state
    if wanted is None:
        page.goto(f"{server.url}/session?id={plain}&step=4")
        settled(page)
        if field_of(page, "Kernel source").count() == 0:
            open_editor(page)
        yield "session, editor"


_FOCUS = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  const box = at.getBoundingClientRect();
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--cg-blue)";
  const blue = getComputedStyle(probe).color;
  probe.remove();
  const ring = (one) => {
    const { outlineStyle, outlineWidth, boxShadow, borderTopColor, borderTopWidth } = getComputedStyle(one);
    const bordered = borderTopColor === blue && borderTopWidth !== "0px";
    return (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none" || bordered;
  };
  let seen = false;
  for (let one = at, up = 0; one && up < 4; one = one.parentElement ?? one.getRootNode().host, up++) seen ||= ring(one);
  return { what: `${at.localName} ${at.getAttribute("aria-label") ?? at.textContent.slice(0, 40)}`, seen,
           where: 2 - ["stBottom", "stMain", "stHeader"].findIndex((id) => at.closest(`[data-testid=${id}]`)
             ?? at.getRootNode().host?.closest(`[data-testid=${id}]`)), body: at === document.body,
           x: box.x, y: box.y };
}"""


_MOVES = """() => [...document.querySelectorAll("*")].filter((one) => {
  const { transitionDuration, animationDuration } = getComputedStyle(one);
  const longest = (durations) => Math.max(...durations.split(",").map(parseFloat));
  return longest(transitionDuration) > 0 || longest(animationDuration) > 0.001;
}).map((one) => one.outerHTML.slice(0, 120))"""
"""What moves although the visitor has asked for less motion, as all visitors of these tests do."""


def test_focus_is_seen_and_goes_from_top_to_bottom_and_nothing_moves(server: Server, store: Store, page: Page) -> None:
    page.goto(f"{server.url}/session?id={softmax_story(store).session}&step=4&pane=log")
    settled(page)
    assert page.evaluate(_MOVES) == [], "even the shortest transition shows what was there before for a frame"
    stops = []
    for _ in range(150):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(_FOCUS))
        if stops[-1]["body"]:
            break
    walked = [stop for stop in stops if not stop["body"]]
    assert not [stop["what"] for stop in walked if not stop["seen"]]
    regions = [stop["where"] for stop in walked if stop["where"] <= 2]
    assert regions == sorted(regions)
    assert set(regions) == {0, 1, 2}, [stop["what"] for stop in walked][-12:]


ZOOMED = {"width": 720, "height": 450}
"""A window of 1440 x 900 at 200 %."""
WIDER = """() => Math.max(...[document.scrollingElement, document.querySelector("[data-testid=stMain]")]
  .map((one) => one.scrollWidth - one.clientWidth))"""


@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_zoomed_to_twice_the_size_all_is_in_reach(server: Server, store: Store, page: Page, all_of_it: bool) -> None:
    session = softmax_story(store).session
    page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    others = ("", "setup", "problems?name=softmax", f"compare?a={session}.1&b={session}.3")
    for address in others if all_of_it else ():
        page.goto(f"{server.url}/{address}")
        settled(page)
        wait_until(lambda: page.evaluate(WIDER) <= 1, f"{address} is wider than the window", SOON_S)
    page.goto(f"{server.url}/session?id={session}&step=5")
    settled(page)
    wait_until(lambda: page.evaluate(WIDER) <= 1, "the session page is wider than the window", SOON_S)
    expect(page.locator(".cg-outcome")).to_contain_text("✗ Wrong result: workload ragged")
    for name in ("Continue without it", "Edit & run", "Redirect", "Reject", "Stop"):
        button = page.get_by_role("button", name=name).first
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport()
