"""Give the browser the value of a field again until it is known to have the field.

A page sets the first value of many fields (`ui_state.put`), and Streamlit sends it once. A browser that is busy, as
while a page opens, draws only the latest of the runs it was sent; where another run has followed meanwhile, it draws
the field without that value and, with the next click, sends Streamlit's own: the first option, or no text.

A browser tells what is in each field it has, with every click. A field that it did not tell about is sent as it is.
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


def send_again() -> None:
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not all(hasattr(SessionState, name) for name in ("register_widget", "_new_widget_state")):
        logger.warning(
            "Streamlit %s is not supported: a field can lose its first value while the browser is busy. Install the "
            "version in constraints.txt.",
            st.__version__,
        )
        return
    register = SessionState.register_widget

    def registered(self: SessionState, metadata: Any, user_key: str | None) -> RegisterWidgetResult[Any]:  # noqa: ANN401
        told = metadata.id in self._new_widget_state
        found = register(self, metadata, user_key)
        if told or metadata.value_type not in _KINDS or _is_in_form() or found.value == metadata.deserializer(None):
            return found
        return replace(found, value_changed=True)

    SessionState.register_widget = registered  # type: ignore[method-assign]


def _is_in_form() -> bool:
    """Tell whether a form is being drawn: a browser tells what is in its fields only when it is sent."""
    return any(holder._form_data and holder._form_data.form_id for holder in context_dg_stack.get())
