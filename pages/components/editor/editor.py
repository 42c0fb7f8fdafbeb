"""Edit the shown kernel. The store keeps the typed text as a draft, so that a reload or a refusal loses nothing.

While the editor is open it has the bar at the bottom of the page (`render_bar`), in place of the decisions. It is a
code editor, or a plain text field with `CUTEGEN_EDITOR=text` or `?editor=text` in the address.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import streamlit as st

from cutegen_core.kernel.plan_words import plan_lines
from cutegen_core.records.as_json import dump
from cutegen_core.records.candidate import content_key
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Draft, Store, edit_name
from cutegen_core.views import SessionView, StepView
from pages.components.editor import code_editor, draft_exchange, drafts, plan_form, text_field
from pages.components.editor.code_editor import EditorPlace
from pages.components.editor.draft_exchange import DraftMessage, Visit
from pages.components.editor.plan_form import Edit
from pages.components.editor.text_field import TextField
from pages.components.session.centre.line_notes import line_messages
from pages.components.session.line_marks import marks_of, moved
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, quiet, table

SETTING = "CUTEGEN_EDITOR"
KINDS = ("code", "text")
EDITOR_HEIGHT_PX = 520
OTHERS_POLL_S = 2.0
"""How soon this tab shows a draft that was changed in another one."""
_EMPTY = "The editor is empty."
_CHANGED = "The text was changed meanwhile. The form shows the new text; please repeat your change."


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


def render_editor(store: Store, view: SessionView, shown: StepView | None, draft: Draft) -> None:
    """Draw the plan's form, the text, and the last test's messages about its lines."""
    heading(_title(shown) if shown and draft.base else "New kernel")
    tested = shown.trial if shown and shown.step.candidate == draft.base else None
    if kind() == "text":
        _text_field(store, view, draft, tested)
        return
    line = _first_line(shown) if shown and shown.step.candidate == draft.base else 1
    st.fragment(_code)(store, view, draft.base, tested, drafts.is_changed(store, view.id, draft), line)
    st.fragment(_watch, run_every=OTHERS_POLL_S)(store, view.id, draft.base)


def _title(shown: StepView) -> str:
    return f"Editing step {shown.step.number}: {shown.step.idea}"


def _first_line(shown: StepView) -> int:
    """Return the first line of code that the step has changed, else the first of the launch plan, else the first of a
    kernel: what the difference has in view."""
    before, now = shown.base_source.split("\n"), shown.source.split("\n")
    folded, was_folded = plan_lines(shown.source), plan_lines(shown.base_source)
    changed = _first_changed(before[was_folded:], now[folded:])
    line = folded + changed if changed else _first_changed(before, now)
    if shown.base_source and line:
        return line
    return next((n for n, text in enumerate(now, 1) if "__global__" in text), 1)


def _first_changed(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the number of the first line that differs, from 1; 0 where none does."""
    same = next((n for n, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), len(now))
    return same + 1 if same < len(now) else 0


def _code(store: Store, view: SessionView, base: str, tested: Trial | None, changed: bool, line: int) -> None:
    """Draw the code editor as a fragment; rerun the whole page only for changes that show elsewhere too."""
    name = edit_name(view.id, base)
    draft = store.draft(name)
    if draft is None or ui_state.waits_for_page() or drafts.is_changed(store, view.id, draft) != changed:
        st.rerun()
    plan_form.render_plan_form(view, draft.text, partial(_rewrite, store, name), tested)
    marks = marks_of(tested)
    code_editor.render_code_editor(
        f"editor-{name}", draft, _visit(name),
        EditorPlace(view.id, base, line, ui_state.editing(name) is True, drafts.blocked(view)),
        moved(marks, drafts.source(store, view.id, base), draft.text), content_key(dump(marks)),
        _actions(store, view, base),
    )  # fmt: skip


def _actions(store: Store, view: SessionView, base: str) -> code_editor.EditorActions:
    seen, name = view.state.meaning_seq, edit_name(view.id, base)

    def keep(message: DraftMessage) -> bool:
        return draft_exchange.take(store, name, base, _visit(name), message)

    def run(message: DraftMessage) -> None:
        if not keep(message):
            return
        if not message.text.strip():
            ui_state.say(_EMPTY)
            return
        _visit(name).ran = content_key(message.text)
        ui_state.choose_now(view.id, Decision(DecisionKind.EDIT, seen, source=message.text, candidate=base or None))

    def close(message: DraftMessage) -> None:
        keep(message)
        drafts.close(view, base)
        ui_state.redraw_page()

    def discard(message: DraftMessage) -> None:
        keep(message)
        drafts.discard(store, view, base)
        ui_state.redraw_page()

    return code_editor.EditorActions(keep, run, close, discard)


def _visit(name: str) -> Visit:
    return ui_state.kept(drafts.visit_key(name), Visit)


def _watch(store: Store, session: str, base: str) -> None:
    """Redraw when another tab has edited, run or discarded the draft."""
    name = edit_name(session, base)
    draft = store.draft(name)
    if draft is None or content_key(draft.text) != _visit(name).drawn:
        st.rerun()


def _rewrite(store: Store, name: str, edit: Edit) -> None:
    """Make the form's change in the text as it is now; say why where that is not possible."""
    draft = store.draft(name)
    if draft is None:
        return
    try:
        new = draft._replace(text=edit(draft.text))
    except KernelFileError as error:
        ui_state.say(f"Not changed: {error}")
        return
    if not store.replace_draft(name, draft, new):
        ui_state.say(_CHANGED)


# -- the bar -----------------------------------------------------------------------------------------------------------


def render_bar(store: Store, view: SessionView, draft: Draft) -> None:
    """Draw Run, Close and Discard, and whether the draft is saved."""
    if kind() == "code":
        code_editor.render_bar()
    else:
        _buttons(store, view, draft.base)


def _buttons(store: Store, view: SessionView, base: str) -> None:
    seen = view.state.meaning_seq

    def make(text: str) -> Decision:
        return Decision(DecisionKind.EDIT, seen, source=text, candidate=base or None)

    why = drafts.blocked(view)
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(
            "Run the edit", key="edit-run", type="primary", shortcut="Ctrl+Enter", disabled=bool(why),
            on_click=ui_state.noted(ui_state.choose, view.id, make, f"editor-{edit_name(view.id, base)}", _EMPTY),
        )  # fmt: skip
        st.button("Close, keep the draft", key="edit-close", on_click=ui_state.noted(drafts.close, view, base))
        st.button(
            "Discard", key="edit-discard", help="Can be undone",
            on_click=ui_state.noted(drafts.discard, store, view, base),
        )  # fmt: skip
        if why:
            quiet(why)


# -- the text field ----------------------------------------------------------------------------------------------------


def _text_field(store: Store, view: SessionView, draft: Draft, tested: Trial | None) -> None:
    """Draw the text field. It takes over a draft changed in another tab, or asks which text to keep."""
    name = edit_name(view.id, draft.base)
    field = text_field.take_over(f"editor-{name}", draft)
    plan_form.render_plan_form(view, draft.text, partial(_write, store, name, field), tested)
    text_field.render_choice(store, name, field, draft)
    st.text_area(
        code_editor.LABEL, field.text, key=field.key, height=EDITOR_HEIGHT_PX, label_visibility="collapsed",
        on_change=ui_state.noted(text_field.keep, store, name, field), persist_state="session",
    )  # fmt: skip
    said = sorted(line_messages(tested).items())
    rows: list[tuple[object, ...]] = [(line, text) for line, texts in said for text in texts]
    if rows:
        st.html(table(("line", "message of the last test"), rows, numbers_from=9))


def _write(store: Store, name: str, field: TextField, edit: Edit) -> None:
    """Save the form's change of the text and show it in the field, unless the field was just typed in."""
    if ui_state.text(field.key) != field.seen.text:
        ui_state.say(_CHANGED)
        return
    _rewrite(store, name, edit)
    draft = store.draft(name)
    if draft is not None:
        field.seen = draft
        ui_state.renew(field.name)
