"""The editor of the shown kernel. Typing is kept as a draft in the store, so a reload or a refusal loses nothing."""

from __future__ import annotations

from functools import partial

import streamlit as st

from cutegen_core.decision import Decision, DecisionKind
from cutegen_core.store import Draft, Store
from cutegen_core.strategies.prompting import FOLDER
from cutegen_core.views import SessionView, StepView
from pages.components import plan_form, ui_state
from pages.components.source import line_messages
from pages.components.texts import heading, table

EDITOR_HEIGHT_PX = 520


def is_open(store: Store, view: SessionView) -> bool:
    """A draft is being typed, unless this tab has closed the editor for now."""
    return store.draft(view.id) is not None and ui_state.editing(view.id) is not False


def has_changes(store: Store, session: str) -> bool:
    """The draft differs from the source it was started from."""
    draft = store.draft(session)
    return draft is not None and draft.text != _source(store, draft.base)


def start(store: Store, session: str, base: str) -> None:
    """Callback: opens the editor on this candidate ("": on an example), or on the draft that is already there."""
    if store.draft(session) is None:
        store.save_draft(session, Draft(base, _source(store, base)))
    ui_state.set_editing(session, True)


def render_editor(store: Store, view: SessionView, shown: StepView | None) -> None:
    """The text, its Run, Close and Discard, and what was said about its lines when they were tested."""
    draft = store.draft(view.id)
    if draft is None:
        return
    key = _key(view.id, draft)
    ui_state.put_once(key, draft.text)
    step = view.state.step_of(draft.base) if draft.base else None
    heading(f"Editing step {step.number}: {step.idea}" if step else "A kernel by hand, from an example")
    tested = shown.trial if shown and shown.step.candidate == draft.base else None
    plan_form.render_plan_form(view.id, draft.text, partial(_write, store, view.id, draft.base, key), tested)
    st.text_area(
        "Kernel source", key=key, height=EDITOR_HEIGHT_PX, label_visibility="collapsed",
        on_change=_keep, args=(store, view.id, draft.base, key),
    )  # fmt: skip
    _buttons(store, view, draft.base, key)
    if shown and shown.step.candidate == draft.base:
        rows: list[tuple[object, ...]] = [
            (line, text) for line, said in sorted(line_messages(shown.trial).items()) for text in said
        ]
        if rows:
            st.html(table(("line", "said when it was tested"), rows, numbers_from=9))


def taken(store: Store, session: str, source: str) -> None:
    """The engine has made this text a candidate: the draft of it is done with. Typing that went on is kept."""
    draft = store.draft(session)
    if draft and draft.text == source:
        discard(store, session)


def discard(store: Store, session: str) -> None:
    """Callback: forgets the draft and closes the editor."""
    draft = store.draft(session)
    store.save_draft(session, None)
    ui_state.set_editing(session, False)
    if draft:
        ui_state.forget(_key(session, draft))


def _key(session: str, draft: Draft) -> str:
    return f"editor-{session}-{draft.base[:12]}"


def _buttons(store: Store, view: SessionView, base: str, key: str) -> None:
    seen = view.state.meaning_seq

    def make(text: str) -> Decision:
        return Decision(DecisionKind.EDIT, seen, source=text, candidate=base or None)

    with st.container(horizontal=True, gap="xsmall"):
        st.button(
            "Run the edit", key="edit-run", type="primary", shortcut="Ctrl+Enter", on_click=ui_state.choose,
            args=(make, key, "The editor is empty."),
        )  # fmt: skip
        st.button("Close, keep the draft", key="edit-close", on_click=ui_state.set_editing, args=(view.id, False))
        st.button("Discard the draft", key="edit-discard", on_click=discard, args=(store, view.id))


def _keep(store: Store, session: str, base: str, key: str) -> None:
    # Ctrl+Enter is a click and a change of the text: the change may come after the engine has taken the edit.
    if store.draft(session) is not None:
        store.save_draft(session, Draft(base, ui_state.text(key)))


def _write(store: Store, session: str, base: str, key: str, text: str) -> None:
    """The form has changed the text: it is the draft, and what the editor shows."""
    store.save_draft(session, Draft(base, text))
    ui_state.put(key, text)


def _source(store: Store, base: str) -> str:
    return store.text(base) if base else (FOLDER / "example.cu").read_text()
