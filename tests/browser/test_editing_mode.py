"""Editing as a mode: its own bar, a draft of its own for every step, no conflict of a tab with itself, a way back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.event import Outcome
from cutegen_core.trajectory.store import Draft, Store, edit_name
from tests.browser.driving import button_of, engine_held, press, settled, shortcut, standing_still, title_of, widget_of
from tests.browser.editing import editor_of, open_editor, text_of, until_saved
from tests.pages.stories import KERNEL, ONE_PASS, TYPO, softmax_story
from tests.patience import wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PASTE = """(content, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""
CURSOR_IS_SEEN = """(content) => {
  const { view } = content.cmTile.root;
  const [cursor, frame] = [view.coordsAtPos(view.state.selection.main.head), view.scrollDOM.getBoundingClientRect()];
  return cursor !== null && cursor.top >= frame.top && cursor.bottom <= frame.bottom;
}"""


def cursor_line(page: Page) -> int:
    return int((page.locator(".cg-editor-place").text_content() or "").split(",")[0].removeprefix("Ln "))


@pytest.mark.thorough
def test_a_draft_belongs_to_its_step_and_a_discarded_one_comes_back(server: Server, store: Store, page: Page) -> None:
    with engine_held(server):
        story = softmax_story(store)
        page.goto(f"{server.url}/session?id={story.session}&step=4")
        editor = open_editor(page)
        expect(page.get_by_role("heading", name="Evidence of step 4, before your edit")).to_be_visible()
        expect(button_of(page, "Redirect")).to_have_count(0)
        assert cursor_line(page) == 40  # of the compiler's message
        editor.press("Control+End")
        editor.press_sequentially("// mine\n")
        mine = TYPO + "// mine\n"
        until_saved(store, story.session, mine)
        # A step ends, and the next one begins: the editor stays with its own.
        story.close(Outcome.FAILED)
        story.propose(KERNEL, "another idea")
        expect(page.locator(".cg-steps, [data-testid=stMain]").get_by_text("another idea").first).to_be_visible()
        assert text_of(page) == mine
        # Another step shows no draft but its own.
        shortcut(page, "o")
        expect(title_of(page)).to_contain_text("Step 3")
        expect(editor_of(page)).to_have_count(0)
        expect(button_of(page, "Redirect")).to_be_visible()
        expect(button_of(page, "Draft of step 4")).to_be_visible()
        page.reload()
        button_of(page, "Draft of step 4").click()
        expect(editor_of(page)).to_be_focused()
        assert text_of(page) == mine
        expect(page.locator(".cg-editor-place")).to_contain_text(f"Ln {mine.count(chr(10)) + 1}")
        assert editor_of(page).evaluate(CURSOR_IS_SEEN)
        # What was typed a moment before is discarded, and comes back, with the rest.
        page.keyboard.type("// at once")
        button_of(page, "Discard").click()
        expect(editor_of(page)).to_have_count(0)
        press(page, "Undo discard")
        expect(editor_of(page)).to_be_visible()
        assert text_of(page) == mine + "// at once"


@pytest.mark.thorough
def test_a_tab_is_never_in_conflict_with_itself(server: Server, store: Store, page: Page) -> None:
    session = softmax_story(store).session
    store.save_draft(edit_name(session, store.put(ONE_PASS)), Draft(store.put(ONE_PASS), ONE_PASS))
    page.goto(f"{server.url}/session?id={session}&step=3")
    editor = editor_of(page)
    pasted = "".join(f"// line {number} of many that are pasted\n" for number in range(3000))
    editor.press("Control+End")
    editor.evaluate(PASTE, pasted)
    page.wait_for_timeout(600)  # what follows within half a second is undone with it
    for _ in range(4):  # typing, pauses and undoing, faster than such a text is saved
        page.keyboard.type("// typed")
        page.wait_for_timeout(400)
        page.keyboard.press("Control+z")
    page.keyboard.type("// end\n")
    before = text_of(page)
    assert pasted[-1000:] in before
    until_saved(store, session, before)
    editor.press("Control+End")
    with standing_still(server, page):  # a reload with three texts on their way
        for typed in (" one", " two", " three"):
            page.keyboard.type(typed)
            page.wait_for_timeout(450)
        page.evaluate("setTimeout(() => location.reload())")
        page.wait_for_timeout(300)
    settled(page)
    until_saved(store, session, f"{before} one two three")
    assert text_of(page) == f"{before} one two three"
    expect(page.get_by_role("alert").filter(has_text="Conflict")).to_be_hidden()


@pytest.mark.thorough
def test_the_form_changes_the_plan_while_typing_is_on_its_way(server: Server, store: Store, page: Page) -> None:
    """Both are in the text."""
    session = softmax_story(store).session
    store.save_draft(edit_name(session, store.put(ONE_PASS)), Draft(store.put(ONE_PASS), ONE_PASS))
    page.goto(f"{server.url}/session?id={session}&step=3")
    editor = editor_of(page)
    editor.press("Control+End")
    page.keyboard.type("// end\n")
    before = text_of(page)
    until_saved(store, session, before)
    page.get_by_text("Launch plan ·").click()
    grid = widget_of(page, "textbox", "grid")
    expect(grid).to_be_visible()
    editor.press("Control+End")
    with standing_still(server, page):
        page.keyboard.type("// while it changes")
        grid.fill("rows * 1")
        grid.press("Enter")
        editor.press("Control+End")
        page.keyboard.type(", and on")
        page.wait_for_timeout(450)  # two texts are sent, and the form's change lies between them
    whole = before.replace('["rows"]', '["rows * 1"]', 1) + "// while it changes, and on"
    until_saved(store, session, whole)
    wait_until(lambda: text_of(page) == whole, "the form's change is not in the editor")
