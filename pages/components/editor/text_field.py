"""Keep what is typed into a plain text field as a draft in the store, so that a reload or another tab loses nothing.

A draft that another tab has changed meanwhile is taken over, or the user is asked which text to keep.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.views.wording import KEEP_MINE, USE_OTHER
from pages.components.shared import ui_state
from pages.components.shared.texts import note


@dataclass
class TextField:
    """A plain text field: its name, and the draft that it last saved or loaded."""

    name: str
    seen: Draft

    @property
    def key(self) -> str:
        return ui_state.field_key(self.name)

    @property
    def text(self) -> str:
        """What it shows."""
        return ui_state.text(self.key) or self.seen.text


def take_over(name: str, draft: Draft) -> TextField:
    """Return the field with this name; it shows the draft unless something else was typed into it."""
    field = ui_state.kept(f"field-{name}", lambda: TextField(name, draft))
    if ui_state.text(field.key) in ("", field.seen.text):
        ui_state.showing(field.name, draft.text)
        field.seen = draft
    return field


def keep(store: Store, name: str, field: TextField) -> None:
    """Save the typed text if the draft is as this field saw it last, or was used or discarded meanwhile.

    Ctrl+Enter is a click and a change of the text; the change may arrive after the engine has taken the decision.

    Args:
        name: of the draft in the store.
    """
    typed, last = field.seen._replace(text=ui_state.text(field.key)), ui_state.tab().last
    if typed == field.seen or (last and typed.text in (last.decision.source, last.decision.text)):
        return
    if store.draft(name) is None:
        store.save_draft(name, typed)
    elif not store.replace_draft(name, field.seen, typed):
        return
    field.seen = typed


def render_choice(store: Store, name: str, field: TextField, draft: Draft) -> None:
    """Ask which text to keep where the draft was changed meanwhile; neither is lost."""
    if field.seen == draft:
        return
    note("warning", "The draft was changed meanwhile in another tab. Your text here is not saved yet.")
    with st.container(horizontal=True, gap="xsmall"):
        st.button(KEEP_MINE, key="edit-mine", on_click=ui_state.noted(_keep_mine, store, name, field, draft))
        st.button(USE_OTHER, key="edit-theirs", on_click=ui_state.noted(_take_theirs, field, draft))


def forget(name: str) -> None:
    """Forget the field's text and what it saw."""
    ui_state.renew(name)
    ui_state.forget(f"field-{name}")


def _keep_mine(store: Store, name: str, field: TextField, draft: Draft) -> None:
    field.seen = draft
    keep(store, name, field)


def _take_theirs(field: TextField, draft: Draft) -> None:
    field.seen = draft
    ui_state.renew(field.name)
