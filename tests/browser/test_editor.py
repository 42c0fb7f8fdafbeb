"""The code editor in a real browser: typing, reload, marks, locks, keys, two tabs, a server that does not answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.trajectory.store import Draft, Store, edit_name
from tests.browser.driving import standing_still, title_of, widget_of
from tests.browser.editing import editor_of, open_editor, replace_text, text_of, until_saved
from tests.pages.stories import HOSTILE, KERNEL, TYPO, hostile_story, softmax_story
from tests.patience import wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LOCKED = KERNEL.replace("  value = partial[0];\n", "  // cutegen: lock\n  value = partial[0];\n  // cutegen: unlock\n")


def test_typing_is_kept_through_reload_and_runs_with_its_key(server: Server, store: Store, page: Page) -> None:
    session = softmax_story(store).session
    page.goto(f"{server.url}/session?id={session}&step=4")
    editor = open_editor(page)
    # The compiler's message: at its line as text, in the gutter, whole on hover.
    line = page.locator(".cm-line", has_text="float sum = 0.0f;")
    expect(line.locator(".cg-note-inline")).to_have_text('✗ identifier "higher" is undefined')
    page.locator(".cm-lint-marker-error").hover()
    expect(page.locator(".cm-tooltip")).to_contain_text("nvrtc")
    editor.press("Control+End")
    editor.press_sequentially("// by hand: s a d x e\n")
    typed = TYPO + "// by hand: s a d x e\n"
    until_saved(store, session, typed)
    expect(page.locator(".cg-rail")).to_contain_text("stale")
    page.reload()
    expect(line.locator(".cg-note-inline")).to_be_visible()
    assert text_of(page) == typed
    expect(page.get_by_role("status").filter(has_text="draft saved")).to_be_visible()
    # A page that is merely loaded takes no letter; its key leads into the editor.
    expect(editor_of(page)).not_to_be_focused()
    open_editor(page)
    # Nothing a kernel can hold becomes markup, and every letter comes back; the engine refuses it at once.
    replace_text(page, HOSTILE)
    with standing_still(server, page):
        page.keyboard.press("Control+Enter")
        page.keyboard.type(" and more")
    expect(title_of(page)).to_contain_text("Step 6")
    expect(editor_of(page)).to_have_count(0)
    decided = [e.event.decision for e in store.events(session) if e.event.kind == "decided"]
    assert store.text(decided[-1].source or "") == HOSTILE
    # What was typed while the run was handed over comes back with the editor; until a pause it is no shortcut.
    page.wait_for_timeout(1000)
    open_editor(page)
    assert text_of(page) == HOSTILE + " and more"
    until_saved(store, session, HOSTILE + " and more")


@pytest.mark.thorough
def test_text_and_messages_from_outside_stay_text(server: Server, store: Store, page: Page) -> None:
    session = hostile_story(store).session
    page.goto(f"{server.url}/session?id={session}&step=1")
    open_editor(page)
    expect(page.locator(".cg-note-inline")).to_have_text(f"✗ {HOSTILE}")
    page.locator(".cm-lint-marker-error").hover()
    expect(page.locator(".cm-tooltip")).to_contain_text(HOSTILE)
    editor_of(page).press("Control+Shift+M")
    expect(page.locator(".cm-panel-lint")).to_contain_text(HOSTILE)
    assert page.locator("[data-testid=stMain] img[src=x]").count() == 0
    assert page.title() != "owned"


def test_locked_lines_find_and_the_way_out(server: Server, store: Store, page: Page) -> None:
    session = softmax_story(store).session
    store.save_draft(edit_name(session, store.put(KERNEL)), Draft(store.put(KERNEL), LOCKED))
    page.goto(f"{server.url}/session?id={session}&step=1")
    editor = editor_of(page)
    expect(page.locator(".cm-line.cg-locked")).to_have_text("  value = partial[0];")
    page.locator(".cm-line.cg-locked").click()
    for key in ("x", "Enter", "Backspace", "Home", "Backspace", "y", "Delete", "Control+Shift+K"):
        page.keyboard.press(key)
    assert text_of(page) == LOCKED
    expect(page.get_by_role("status").filter(has_text="locked")).to_be_visible()
    # Replace all changes what is not locked; without the mark the lines are free.
    editor.press("Control+f")
    widget_of(page, "textbox", "Find").fill("partial")
    widget_of(page, "textbox", "Replace").fill("shared")
    page.get_by_role("button", name="replace all").click()
    assert text_of(page).count("partial") == 1
    page.keyboard.press("Escape")
    editor.press("Control+z")
    assert text_of(page) == LOCKED
    page.locator(".cm-line", has_text="cutegen: lock").first.click()
    page.keyboard.press("Control+Shift+K")
    expect(page.locator(".cm-line.cg-locked")).to_have_count(0)
    page.keyboard.press("Home")
    page.keyboard.type("z")
    assert text_of(page) == LOCKED.replace("  // cutegen: lock\n  value", "  zvalue")
    # Tab indents; after Escape it leaves.
    before = text_of(page)
    page.keyboard.press("Tab")
    assert text_of(page) != before
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()
    expect(page.get_by_role("button", name="Run the edit")).to_be_focused()


@pytest.fixture
def kernel_in_two_tabs(server: Server, store: Store, page: Page) -> tuple[str, Page, Page]:
    """The session and two tabs with the draft of its first step."""
    session = softmax_story(store).session
    store.save_draft(edit_name(session, store.put(KERNEL)), Draft(store.put(KERNEL), KERNEL))
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto(f"{server.url}/session?id={session}&step=1")
        expect(editor_of(tab)).to_be_visible()
        expect(tab.get_by_role("status").filter(has_text="no changes yet")).to_be_visible()
    return session, page, other


@pytest.mark.thorough
def test_who_types_in_a_line_that_another_tab_has_changed_is_asked(
    server: Server, store: Store, kernel_in_two_tabs: tuple[str, Page, Page]
) -> None:
    session, page, other = kernel_in_two_tabs
    in_the_same_line(server, store, session, page, other, KERNEL)


@pytest.mark.thorough
def test_no_typing_is_lost_to_another_tab_or_a_slow_server(
    server: Server, store: Store, kernel_in_two_tabs: tuple[str, Page, Page]
) -> None:
    session, page, other = kernel_in_two_tabs
    # What one tab types, the other shows.
    editor_of(page).press("Control+End")
    page.keyboard.type("// one\n")
    wait_until(lambda: text_of(other) == KERNEL + "// one\n", "the other tab did not follow")
    # The server stands still; both go on typing, and what comes late from it changes no letter.
    editor_of(page).press("Control+End")
    with standing_still(server, page):
        page.keyboard.type("// still one", delay=40)
        page.wait_for_timeout(500)
    page.keyboard.type(", typed on while the answers come", delay=25)
    one = KERNEL + "// one\n// still one, typed on while the answers come"
    assert text_of(page) == one
    until_saved(store, session, one)
    # The other tab types elsewhere upon what was there before: both have both.
    editor_of(page).press("Control+End")
    editor_of(other).press("Control+Home")
    with standing_still(server, page, other):
        page.keyboard.type("!")
        page.wait_for_timeout(500)
        other.keyboard.type("// two\n")
    one = f"// two\n{one}!"
    until_saved(store, session, one)
    for tab in (page, other):
        wait_until(lambda: text_of(tab) == one, "the texts were not joined")  # noqa: B023 - asked at once
        assert not tab.get_by_role("alert").filter(has_text="Conflict").is_visible()
    in_the_same_line(server, store, session, page, other, one)


def in_the_same_line(server: Server, store: Store, session: str, page: Page, other: Page, one: str) -> None:
    """Let both type there: one of them is asked, and nothing is overwritten meanwhile."""
    for tab in (page, other):
        editor_of(tab).press("Control+End")
    with standing_still(server, page, other):
        for tab, typed in ((page, " mine"), (other, " mine too")):
            tab.keyboard.type(typed)
            tab.wait_for_timeout(500)
    conflict = re.compile("changed elsewhere")
    wait_until(lambda: any(tab.get_by_text(conflict).is_visible() for tab in (page, other)), "nobody was asked")
    asked, saved = (other, page) if other.get_by_text(conflict).is_visible() else (page, other)
    texts = {tab: text_of(tab) for tab in (asked, saved)}
    assert texts == {page: one + " mine", other: one + " mine too"}
    until_saved(store, session, texts[saved])
    asked.get_by_role("button", name="Keep my version").click()
    until_saved(store, session, texts[asked])
    wait_until(lambda: text_of(saved) == texts[asked], "the other tab did not follow")
    editor_of(saved).press("Control+z")
    assert text_of(saved) == texts[saved]
