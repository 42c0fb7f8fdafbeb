"""The code editor as a test reaches it: only the lines in view are in the page, the whole text is in CodeMirror."""

from __future__ import annotations

from difflib import ndiff

from playwright.sync_api import Locator, Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import field_of, shortcut
from tests.patience import wait_until

_TEXT = "content => content.cmTile.root.view.state.doc.toString()"


def editor_of(page: Page) -> Locator:
    return field_of(page, "Kernel source")


def text_of(page: Page) -> str:
    return str(editor_of(page).evaluate(_TEXT))


def open_editor(page: Page) -> Locator:
    """Open it with its key, as a person does: where it is open already, the key leads into its text."""
    expect(page.get_by_role("button", name="Edit & run").or_(editor_of(page))).to_be_enabled()
    shortcut(page, "e")
    expect(editor_of(page)).to_be_focused()
    return editor_of(page)


def replace_text(page: Page, text: str) -> None:
    editor_of(page).press("Control+a")
    page.keyboard.insert_text(text)
    assert text_of(page) == text


def until_saved(store: Store, session: str, text: str) -> None:
    def saved() -> bool:
        return any(draft.text == text for draft in store.edits(session))

    def difference() -> str:
        (draft, *_) = store.edits(session) or [None]
        lines = ndiff(text.splitlines()[-40:], (draft.text if draft else "").splitlines()[-40:])
        return "the draft is another text:\n" + "\n".join(line for line in lines if line[0] != " ")

    wait_until(saved, difference)
