"""Call the callbacks of all clicks, also of those that follow each other faster than the server answers.

Streamlit takes a click from its queue and, if another has arrived, continues with that one instead. The first click is
lost, and with it a button's press, which the browser sends once. (It sends a choice again with every click.) This
module calls the callbacks of the first click before those of the second.
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
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not SafeSessionState.__annotations__.keys() >= _PARTS:
        logger.warning(
            "Streamlit %s is not supported: a button pressed while the server is busy can be lost when another click "
            "follows. Install the version in constraints.txt.",
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
