"""Callbacks of clicks that follow each other faster than the server answers are all called.

Streamlit takes a click from its queue, then looks whether another has come, and if so goes on with that one instead:
the first is gone, and with it a button's press, which is sent once. (A choice is sent again with every click.) Here the
callbacks of the first are called all the same, before the second.
"""

from __future__ import annotations

import logging
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner_utils.exceptions import RerunException
from streamlit.runtime.state.safe_session_state import SafeSessionState

logger = logging.getLogger(__name__)

_PARTS = {"_lock", "_state", "_yield_callback"}


def keep() -> None:
    """Once per process, before the first page is drawn. An unknown Streamlit is left as it is, with a warning."""
    if not SafeSessionState.__annotations__.keys() >= _PARTS:
        logger.warning(
            "Streamlit %s is not known here: a button pressed while the server is busy can be forgotten when another "
            "click follows. Install the version in constraints.txt.",
            st.__version__,
        )
        return
    SafeSessionState.on_script_will_rerun = _heard  # type: ignore[method-assign]


def _heard(self: SafeSessionState, clicked: Any, **rest: Any) -> None:  # noqa: ANN401 - Streamlit's own types
    later = None
    try:
        self._yield_callback()
    except RerunException as another:
        later = another
    try:
        with self._lock:
            self._state.on_script_will_rerun(clicked, **rest)
    except Exception:
        if later is None:
            raise
        logger.exception("a click failed while another one waited")
    if later is not None:
        raise later
