"""What a person changes while the answers of the server are late is kept: an answer from before undoes nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.trajectory.store import Draft, Store, edit_name
from tests.browser.driving import settled, widget_of
from tests.browser.editing import editor_of, replace_text, text_of, until_saved
from tests.pages.stories import ONE_PASS, softmax_story
from tests.patience import wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_LINE = """() => {
  const line = (globalThis.line = { held: null, sent: 0 });
  globalThis.WebSocket = class extends WebSocket {
    addEventListener(type, heard, ...rest) {
      const kept = (event) => line.held?.push({ event, text: new TextDecoder("latin1").decode(event.data), heard });
      super.addEventListener(type, type === "message" ? (event) => kept(event) ?? heard(event) : heard, ...rest);
    }
    send(message) {
      line.sent += 1;
      super.send(message);
    }
  };
}"""


_RELEASE = """async (count) => {
  while (count > 0 && line.held.length) {
    for (const { event, heard } of line.held.splice(0, Math.min(count, 16))) heard(event);
    count -= 16;
    await new Promise((next) => setTimeout(next));
  }
}"""
"""As a quick line does: a few at a time, which the page draws at once. One by one, hundreds would take it seconds."""


class Line:
    """The line between a page and its server. It can keep answers back, as a busy machine does."""

    def __init__(self, tab: Page) -> None:
        self.page = tab
        tab.add_init_script(f"({_LINE})()")

    def hold(self) -> None:
        """Keep the answers back from now on."""
        self.page.evaluate("line.held = []")

    def until_held(self, part: str) -> int:
        """Wait until an answer with this text is kept back; return how many are."""
        self.page.wait_for_function("part => line.held.some(({ text }) => text.includes(part))", arg=part)
        return int(self.page.evaluate("line.held.length"))

    def until_said(self) -> None:
        """Wait until the browser has said what is in its fields twice more, as it does in polls."""
        sent = self.page.evaluate("line.sent")
        self.page.wait_for_function("sent => line.sent > sent + 1", arg=sent)

    def release(self, count: int) -> None:
        """Let the first ones through, in their order."""
        self.page.evaluate(_RELEASE, count)

    def go_on(self) -> None:
        """Let all through, and those that come."""
        self.page.evaluate(f"async () => {{ await ({_RELEASE})(Infinity); line.held = null; }}")


@pytest.fixture
def plan(server: Server, store: Store, own_tab: Page) -> tuple[Page, Line, str]:
    """A page with the editor and the form of the plan, its line, and the session."""
    session = softmax_story(store).session
    store.save_draft(edit_name(session, store.put(ONE_PASS)), Draft(store.put(ONE_PASS), ONE_PASS))
    page = own_tab
    line = Line(page)
    page.goto(f"{server.url}/session?id={session}&step=3")
    expect(editor_of(page)).to_be_visible()
    page.get_by_text("Launch plan ·").click()
    expect(widget_of(page, "textbox", "grid")).to_have_value("rows")
    settled(page)
    return page, line, session


def grid_becomes(text: str, value: str) -> str:
    return text.replace('["rows"]', f'["{value}"]', 1)


def type_on(page: Page, store: Store, session: str, text: str) -> None:
    """Type at the end of this text; what the browser has said before is handled before that is saved."""
    editor_of(page).press("Control+End")
    page.keyboard.type("// and on")
    until_saved(store, session, text + "// and on")
    wait_until(lambda: text_of(page) == text + "// and on", "the editor has another text")


@pytest.mark.thorough
def test_an_answer_from_before_a_change_of_the_form_undoes_nothing(plan: tuple[Page, Line, str], store: Store) -> None:
    page, line, session = plan
    grid = widget_of(page, "textbox", "grid")
    line.hold()
    editor_of(page).press("Control+End")
    page.keyboard.type("// typed\n")
    typed = ONE_PASS + "// typed\n"
    until_saved(store, session, typed)
    drawn = line.until_held("-0-grid")
    grid.fill("rows * 1")
    grid.press("Enter")
    until_saved(store, session, grid_becomes(typed, "rows * 1"))
    line.release(drawn)
    line.until_said()
    line.go_on()
    type_on(page, store, session, grid_becomes(typed, "rows * 1"))
    expect(grid).to_have_value("rows * 1")


@pytest.mark.thorough
def test_a_form_that_is_drawn_late_undoes_nothing_that_was_typed(plan: tuple[Page, Line, str], store: Store) -> None:
    page, line, session = plan
    line.hold()
    replace_text(page, grid_becomes(ONE_PASS, "cols"))
    until_saved(store, session, grid_becomes(ONE_PASS, "cols"))
    line.until_held("-0-grid")
    line.until_said()
    line.go_on()
    type_on(page, store, session, grid_becomes(ONE_PASS, "cols"))
    expect(widget_of(page, "textbox", "grid")).to_have_value("cols")


@pytest.mark.thorough
def test_quick_changes_of_a_problem_all_count(server: Server, store: Store, own_tab: Page) -> None:
    """The text, two sizes and the name that the page suggests, while no answer comes."""
    page = own_tab
    line = Line(page)
    page.goto(f"{server.url}/problems?name=softmax&edit=1")
    settled(page)

    def field(label: str) -> Locator:
        return widget_of(page, "textbox", label, exact=True)

    def enter(label: str, value: str) -> None:
        field(label).fill(value)
        field(label).press("Tab")

    def text() -> str:
        draft = store.draft("problem:softmax of built-in")
        return draft.text if draft else ""

    first, second = "dim of workload ragged", "batch_size of workload medium"
    line.hold()
    enter(first, "999")
    wait_until(lambda: '"dim": 999' in text(), text)
    drawn = line.until_held("999")
    enter("Name", "mine")
    enter(second, "128")
    wait_until(lambda: '"batch_size": 128' in text(), text)
    line.release(drawn)
    page.wait_for_timeout(300)
    line.go_on()
    expect(field("Name")).to_have_value("mine")
    enter(first, "998")
    wait_until(lambda: '"dim": 998' in text(), text)
    assert '"batch_size": 128' in text()
    expect(field(second)).to_have_value("128")
    expect(field("Name")).to_have_value("mine")
