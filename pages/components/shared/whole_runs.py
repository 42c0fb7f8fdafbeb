"""Send the browser everything that a page has drawn, also where a poll of the page begins before it was sent.

Messages wait 10 ms before they are sent, and longer on a busy machine. When a poll begins meanwhile, Streamlit drops
messages that are still needed:

1. what the page has drawn in the polled fragment, though the browser is told that the page was drawn to its end;
2. what is on its way from the page's thread, if that thread has ended.

The browser removes what it was not sent. What comes later is counted from the top, so it goes to a wrong place. Where
there is no such place the whole page turns white and stays so.
"""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakSet

import streamlit as st
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner import ScriptRunner, ScriptRunnerEvent
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

logger = logging.getLogger(__name__)

PARTS = (
    (ForwardMsgQueue, "clear"), (AppSession, "_create_scriptrunner"),
    (AppSession, "_handle_scriptrunner_event_on_event_loop"),
)  # fmt: skip
"""What is patched of Streamlit."""

_ended: WeakSet[ScriptRunner] = WeakSet()
"""Runners whose thread has ended and whose last messages have not all arrived."""


def keep() -> None:
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not all(hasattr(owner, name) for owner, name in PARTS) or "_delta_index_map" not in vars(ForwardMsgQueue()):
        logger.warning(
            "Streamlit %s is not supported: a page can turn white while the server is busy, until it is loaded again. "
            "Install the version in constraints.txt.",
            st.__version__,
        )
        return
    clear, create = ForwardMsgQueue.clear, AppSession._create_scriptrunner
    handle = AppSession._handle_scriptrunner_event_on_event_loop

    def clear_for_whole_runs(
        self: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
    ) -> None:
        if fragment_ids_this_run:
            self._delta_index_map = {}  # what waits is sent as it is: nothing of the fragment joins it
        else:
            clear(self, retain_lifecycle_msgs, fragment_ids_this_run)

    def create_after(self: AppSession, asked: RerunData) -> None:
        if self._scriptrunner is not None:  # it takes no requests any more
            _ended.add(self._scriptrunner)
        create(self, asked)

    def handle_to_the_end(self: AppSession, sender: ScriptRunner | None, event: ScriptRunnerEvent, *rest: Any) -> None:  # noqa: ANN401
        if sender is None or sender not in _ended:
            handle(self, sender, event, *rest)
        elif event is ScriptRunnerEvent.SHUTDOWN:
            _ended.discard(sender)
        else:
            now, self._scriptrunner = self._scriptrunner, sender
            try:
                handle(self, sender, event, *rest)
            finally:
                self._scriptrunner = now

    ForwardMsgQueue.clear = clear_for_whole_runs  # type: ignore[method-assign]
    AppSession._create_scriptrunner = create_after  # type: ignore[method-assign]
    AppSession._handle_scriptrunner_event_on_event_loop = handle_to_the_end  # type: ignore[method-assign]
