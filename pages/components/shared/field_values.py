"""Keep the server's and the browser's idea of a field's value together while an answer is on its way.

A browser tells what is in each field it has, with every click and every poll.

1. A page sets the first value of many fields (`ui_state.put`), and Streamlit sends it once. A browser that is busy, as
   while a page opens, draws only the latest of the runs it was sent; where another run has followed meanwhile, it draws
   the field without that value and, with the next click, sends Streamlit's own: the first option, or no text. So a
   field that the browser did not tell about is sent as it is.
2. It goes on telling about a field that is gone until it has heard of that, and Streamlit takes this for a change from
   nothing. So what is told of such a field is a change only where it is not what the page gave the field.

Rule 2 is for fields whose value changes elsewhere, too (`ui_state.showing`). A page that would set the value of such a
field at every drawing would have it sent every time: the browser puts it in place of what a person has entered since,
and tells it as if it was entered.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator_singletons import context_dg_stack
from streamlit.runtime.state.common import RegisterWidgetResult
from streamlit.runtime.state.session_state import SessionState

logger = logging.getLogger(__name__)

_KINDS = {
    "bool_value", "double_value", "int_value", "string_value", "double_array_value", "int_array_value",
    "string_array_value",
}  # fmt: skip
_PARTS = ("register_widget", "_widget_changed", "_new_widget_state", "_old_state")


def keep() -> None:
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not all(hasattr(SessionState, name) for name in _PARTS):
        logger.warning(
            "Streamlit %s is not supported: a field can lose its first value, or what was entered in it, while the "
            "browser or the server is busy. Install the version in constraints.txt.",
            st.__version__,
        )
        return
    register, changed = SessionState.register_widget, SessionState._widget_changed

    def registered(self: SessionState, metadata: Any, user_key: str | None) -> RegisterWidgetResult[Any]:  # noqa: ANN401
        told = metadata.id in self._new_widget_state
        found = register(self, metadata, user_key)
        if told or metadata.value_type not in _KINDS or _is_in_form() or found.value == metadata.deserializer(None):
            return found
        return replace(found, value_changed=True)

    def changed_by_hand(self: SessionState, widget_id: str) -> bool:
        metadata = self._new_widget_state.widget_metadata.get(widget_id)
        if widget_id in self._old_state or metadata is None or metadata.value_type not in _KINDS:
            return changed(self, widget_id)
        return bool(self._new_widget_state.get(widget_id) != metadata.deserializer(None))

    SessionState.register_widget = registered  # type: ignore[method-assign]
    SessionState._widget_changed = changed_by_hand  # type: ignore[method-assign]


def _is_in_form() -> bool:
    """Tell whether a form is being drawn: a browser tells what is in its fields only when it is sent."""
    return any(holder._form_data and holder._form_data.form_id for holder in context_dg_stack.get())
