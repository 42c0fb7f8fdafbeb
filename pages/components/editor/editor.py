"""Edit the shown kernel. The store keeps the typed text as a draft, so that a reload or a refusal loses nothing.

The editor is a code editor, or a plain text field with `CUTEGEN_EDITOR=text` or `?editor=text` in the address.
"""

from __future__ import annotations

import os
from functools import partial

import streamlit as st

from cutegen_core import views
from cutegen_core.propose.prompting.rendering import EXAMPLE
from cutegen_core.records.as_json import dump
from cutegen_core.records.candidate import content_key
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import UsageError
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.views import SessionView, StepView
from pages.components.editor import code_editor, draft_exchange, plan_form, text_field
from pages.components.editor.draft_exchange import DraftMessage, Visit
from pages.components.editor.first_text import first_text
from pages.components.editor.text_field import TextField
from pages.components.session.centre.line_notes import line_messages
from pages.components.session.line_marks import marks_of, moved
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, table

SETTING = "CUTEGEN_EDITOR"
KINDS = ("code", "text")
EDITOR_HEIGHT_PX = 520
OTHERS_POLL_S = 2.0
"""How soon this tab shows a draft that was changed in another one."""
_EMPTY = "The editor is empty."
_CHANGED = "The text was changed meanwhile. The form shows the new text; please repeat your change."


def is_open(store: Store, view: SessionView) -> bool:
    """Tell whether there is a draft and this tab has not closed the editor."""
    return store.draft(view.id) is not None and ui_state.editing(view.id) is not False


def has_changes(store: Store, session: str) -> bool:
    """Tell whether the draft differs from the source it was started from."""
    draft = store.draft(session)
    return draft is not None and draft.text != _source(store, draft.base)


def start(store: Store, session: str, base: str) -> None:
    """Open the editor on the draft if there is one, else on this candidate ("" for a first kernel)."""
    if store.draft(session) is None:
        text = _source(store, base) if base else first_text(views.session_view(store, session).problem)
        store.save_draft(session, Draft(base, text))
    ui_state.set_editing(session, True)


def kind() -> str:
    """Return which of `KINDS` is wanted.

    Raises:
        UsageError: the environment variable has another value.
    """
    wanted = st.query_params.get("editor", "")
    if wanted in KINDS:
        return wanted
    setting = os.environ.get(SETTING, KINDS[0])
    if setting not in KINDS:
        raise UsageError(f"{SETTING} is {setting!r}; it can be {' or '.join(KINDS)}")
    return setting


def render_editor(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Draw the plan's form, the text with Run, Close and Discard, and the last test's messages about its lines."""
    draft = store.draft(view.id)
    if draft is None:
        return
    step = view.state.step_of(draft.base) if draft.base else None
    heading(f"Editing step {step.number}: {step.idea}" if step else "New kernel")
    if kind() == "text":
        _text_field(store, view, shown, draft)
        return
    tested = views.step_view(store, view.id, step.number).trial if step else None
    st.fragment(_code)(store, view, draft.base, tested, has_changes(store, view.id))
    st.fragment(_watch, run_every=OTHERS_POLL_S)(store, view.id, draft.base)


def _code(store: Store, view: SessionView, base: str, tested: Trial | None, changed: bool) -> None:
    """Draw the code editor as a fragment; rerun the whole page only for changes that show elsewhere too."""
    draft = store.draft(view.id)
    if draft is None or draft.base != base or ui_state.waits_for_page() or has_changes(store, view.id) != changed:
        st.rerun()
    visit = _visit(view.id, base)
    plan_form.render_plan_form(view, draft.text, partial(_rewrite, store, view.id, draft), tested)
    marks = marks_of(tested)
    code_editor.render_code_editor(
        _key(view.id, base), view.id, draft, visit, moved(marks, _source(store, base), draft.text),
        content_key(dump(marks)), _actions(store, view, base), focus=ui_state.editing(view.id) is True,
    )  # fmt: skip


def _actions(store: Store, view: SessionView, base: str) -> code_editor.EditorActions:
    seen = view.state.meaning_seq

    def keep(message: DraftMessage) -> None:
        draft_exchange.take(store, view.id, base, _visit(view.id, base), message)

    def run(message: DraftMessage) -> None:
        visit = _visit(view.id, base)
        if not draft_exchange.take(store, view.id, base, visit, message):
            return
        if not message.text.strip():
            ui_state.say(_EMPTY)
            return
        visit.ran = content_key(message.text)
        ui_state.choose_now(view.id, Decision(DecisionKind.EDIT, seen, source=message.text, candidate=base or None))

    def leave(done: bool) -> None:
        if done:
            discard(store, view.id)
        ui_state.set_editing(view.id, False)
        ui_state.redraw_page()

    return code_editor.EditorActions(keep, run, partial(leave, False), partial(leave, True))


def _visit(session: str, base: str) -> Visit:
    return ui_state.kept(_visit_key(session, base), Visit)


def _watch(store: Store, session: str, base: str) -> None:
    """Redraw when another tab has edited, run or discarded the draft."""
    draft = store.draft(session)
    if draft is None or draft.base != base or content_key(draft.text) != _visit(session, base).drawn:
        st.rerun()


def _rewrite(store: Store, session: str, old: Draft, text: str) -> None:
    """Save the form's change of the text, unless the draft was changed since the form was drawn."""
    if not store.replace_draft(session, old, Draft(old.base, text)):
        ui_state.say(_CHANGED)


def _text_field(store: Store, view: SessionView, shown: StepView | None, draft: Draft) -> None:
    """Draw the text field. It takes over a draft changed in another tab, or asks which text to keep."""
    field = text_field.take_over(_key(view.id, draft.base), draft)
    tested = shown.trial if shown and shown.step.candidate == draft.base else None
    plan_form.render_plan_form(view, draft.text, partial(_write, store, view.id, field), tested)
    text_field.render_choice(store, view.id, field, draft)
    st.text_area(
        code_editor.LABEL, key=field.key, height=EDITOR_HEIGHT_PX, label_visibility="collapsed",
        on_change=ui_state.noted(text_field.keep, store, view.id, field), persist_state="session",
    )  # fmt: skip
    _buttons(store, view, draft.base, field.key)
    said = sorted(line_messages(tested).items())
    rows: list[tuple[object, ...]] = [(line, text) for line, texts in said for text in texts]
    if rows:
        st.html(table(("line", "message of the last test"), rows, numbers_from=9))


def taken(store: Store, session: str, source: str) -> None:
    """Forget the draft when the engine has made a candidate of its text; keep one that was typed on."""
    draft = store.draft(session)
    if draft and draft.text == source:
        _forget(store, session, draft)


def discard(store: Store, session: str) -> None:
    """Forget the draft, close the editor and ignore what its tab still sends; a callback."""
    draft = store.draft(session)
    ui_state.set_editing(session, False)
    if draft:
        _forget(store, session, draft)
        ui_state.forget(_visit_key(session, draft.base))


def _forget(store: Store, session: str, draft: Draft) -> None:
    store.save_draft(session, None)
    ui_state.set_editing(session, False)
    text_field.forget(_key(session, draft.base))


def _key(session: str, base: str) -> str:
    return f"editor-{session}-{base[:12]}"


def _visit_key(session: str, base: str) -> str:
    return f"visit-{session}-{base[:12]}"


def _buttons(store: Store, view: SessionView, base: str, key: str) -> None:
    seen = view.state.meaning_seq

    def make(text: str) -> Decision:
        return Decision(DecisionKind.EDIT, seen, source=text, candidate=base or None)

    with st.container(horizontal=True, gap="xsmall"):
        st.button(
            "Run the edit", key="edit-run", type="primary", shortcut="Ctrl+Enter",
            on_click=ui_state.noted(ui_state.choose, view.id, make, key, _EMPTY),
        )  # fmt: skip
        st.button(
            "Close, keep the draft", key="edit-close", on_click=ui_state.noted(ui_state.set_editing, view.id, False)
        )
        st.button("Discard the draft", key="edit-discard", on_click=ui_state.noted(discard, store, view.id))


def _write(store: Store, session: str, field: TextField, text: str) -> None:
    """Save the form's change of the text and show it in the field, unless the field was just typed in."""
    if ui_state.text(field.key) != field.seen.text:
        ui_state.say(_CHANGED)
        return
    written = field.seen._replace(text=text)
    _rewrite(store, session, field.seen, text)
    if store.draft(session) == written:
        field.seen = written
        ui_state.put(field.key, text)


def _source(store: Store, base: str) -> str:
    return store.text(base) if base else EXAMPLE.read_text()
