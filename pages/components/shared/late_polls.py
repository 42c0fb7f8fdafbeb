"""Leave alone what a page asks for that was left meanwhile: polls of its fragments, which the browser sends until the
next page has begun.

Streamlit carries such a poll out for the page that was left. Where the next page has run already, the browser clears
it and nothing draws it again: it stays blank. Where the next page has not begun, the page that was left is drawn
instead. The busier the machine, the more often.
"""

from __future__ import annotations

import logging

import streamlit as st
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests, ScriptRequestType

logger = logging.getLogger(__name__)

_PARTS = ((ScriptRunner, "_run_script"), (ScriptRunner, "_get_script_run_ctx"), (ScriptRequests, "request_rerun"))


def keep_out() -> None:
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not all(hasattr(owner, name) for owner, name in _PARTS):
        logger.warning(
            "Streamlit %s is not supported: a page that is opened while the server is busy can stay blank until it is "
            "opened again. Install the version in constraints.txt.",
            st.__version__,
        )
        return
    run, request = ScriptRunner._run_script, ScriptRequests.request_rerun

    def run_unless_left(self: ScriptRunner, asked: RerunData) -> None:
        if not (asked.fragment_id_queue and _is_of_another(asked, self._get_script_run_ctx().page_script_hash)):
            run(self, asked)

    def request_unless_left(self: ScriptRequests, asked: RerunData) -> bool:
        with self._lock:
            waiting = self._rerun_data if self._state == ScriptRequestType.RERUN else None
        whole_page = waiting is not None and not waiting.fragment_id and not waiting.fragment_id_queue
        if asked.fragment_id and waiting and whole_page and _is_of_another(asked, waiting.page_script_hash):
            return True
        return request(self, asked)

    ScriptRunner._run_script = run_unless_left  # type: ignore[method-assign]
    ScriptRequests.request_rerun = request_unless_left  # type: ignore[method-assign]


def _is_of_another(asked: RerunData, page: str) -> bool:
    return bool(asked.page_script_hash and page) and asked.page_script_hash != page
