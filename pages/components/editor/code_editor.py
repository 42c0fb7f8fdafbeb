"""Draw the code editor: CodeMirror in the page, built from `assets/editor`. Texts reach it as data, never as markup.

The large bundle is a separate component that is the same at every drawing, so that Streamlit's message cache sends it
to a browser once; a small component carries the text. Both are in a fragment, so that saving a draft redraws the editor
and not the page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import streamlit as st

from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import UsageError
from cutegen_core.trajectory.store import Draft
from pages.components import ASSETS
from pages.components.editor.draft_exchange import DraftMessage, Visit, read_message
from pages.components.session.line_marks import LineMark
from pages.components.shared import ui_state

BUNDLE = ASSETS / "editor" / "bundle.js"
BUILD = "cd assets/editor && npm ci --ignore-scripts && npm run build"
LABEL = "Kernel source"

# Streamlit runs it at every drawing; the bundle may arrive before or after.
_MOUNT = """\
export default async function (component) {
  globalThis.cutegenEditor ??= Promise.withResolvers();
  const { %s } = await globalThis.cutegenEditor.promise;
  return %s(component);
}
"""


class EditorActions(NamedTuple):
    """Callbacks for what the editor sends; they run before the page is drawn."""

    draft: Callable[[DraftMessage], None]
    run: Callable[[DraftMessage], None]
    close: Callable[[DraftMessage], None]
    discard: Callable[[DraftMessage], None]


class EditorPlace(NamedTuple):
    """Where the editor of a draft begins, and what keeps its text from being run.

    Attributes:
        session: with `base` the name under which the browser's tab keeps what cannot be saved, and the cursor's place.
        base: the kernel that the draft was started from.
        line: to begin at, where this tab was not in the draft before and no message is at a line.
        focus: whether the editor takes the keyboard, as when it was just opened by hand.
        blocked: why the text cannot be run now, or "".
    """

    session: str
    base: str
    line: int
    focus: bool
    blocked: str


class _Components(NamedTuple):
    bundle: Callable[..., Any]
    editor: Callable[..., Any]
    bar: Callable[..., Any]


@lru_cache(maxsize=1)
def _components() -> _Components:
    try:
        code = BUNDLE.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read the editor: {error}; build it with `{BUILD}`, or set CUTEGEN_EDITOR=text for a text field"
        ) from error
    return _Components(
        st.components.v2.component("cutegen-editor-bundle", js=code),
        st.components.v2.component("cutegen-editor", js=_MOUNT % ("mount", "mount"), isolate_styles=False),
        st.components.v2.component("cutegen-editor-bar", js=_MOUNT % ("mountBar", "mountBar"), isolate_styles=False),
    )


def render_code_editor(key: str, draft: Draft, visit: Visit, place: EditorPlace, marks: tuple[LineMark, ...],
                       marks_of: str, actions: EditorActions) -> None:  # fmt: skip
    """Draw the editor of this draft; its buttons stand where `render_bar` is drawn.

    Args:
        key: of this editor, stable while it is open.
        marks: messages at the lines of `draft.text`, placed again when `marks_of` changes.

    Raises:
        UsageError: the built bundle is missing.
    """
    visit.drawn = content_key(draft.text)
    data = {
        **place._asdict(), "label": LABEL, "opening": visit.opening, "ack": visit.ack, "kept": visit.kept,
        "version": visit.drawn, "text": draft.text, "marks": [mark._asdict() for mark in marks], "marksOf": marks_of,
    }  # fmt: skip

    def message(name: str, act: Callable[[DraftMessage], None]) -> Callable[[], None]:
        def received() -> None:
            sent = read_message(ui_state.reported(key, name))
            if sent:
                act(sent)

        return received

    with st.container(gap=None):
        _components().editor(
            key=key, data=data, on_draft_change=message("draft", actions.draft),
            on_run_change=message("run", actions.run), on_close_change=message("close", actions.close),
            on_discard_change=message("discard", actions.discard),
        )  # fmt: skip
        _components().bundle(key="editor-bundle")


def render_bar() -> None:
    """Draw the place of the editor's buttons, of its state and of the cursor's line."""
    _components().bar(key="editor-bar")
