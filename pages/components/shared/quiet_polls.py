"""Answer a poll of the browser without drawing anything where nothing can have changed.

A fragment that polls is carried out and drawn again each time, in the server and in the browser (5 % of a core for a
page that only waits). A fragment that shows nothing but what is in the store says so (`rest`): until the store is
written, or the browser sends another address, its polls are read and dropped.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import NamedTuple

import streamlit as st
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import get_script_run_ctx

from cutegen_core.trajectory.database import Moment
from cutegen_core.trajectory.store import Store

logger = logging.getLogger(__name__)

_MOST = 1000
"""Fragments that are remembered; one that is forgotten is drawn again."""


class _Rest(NamedTuple):
    """A fragment as it was drawn last."""

    store: Store
    mark: Moment
    address: str


_resting: OrderedDict[tuple[str, str], _Rest] = OrderedDict()


def rest(store: Store, mark: Moment) -> None:
    """Drop the polls of the fragment that is being drawn until something changes; call it at its end.

    Only a poll may begin this, not the run of a page: the first poll after that tells what address the browser has.

    Args:
        mark: the store's, taken before the fragment has read it.
    """
    run = get_script_run_ctx()
    if run is None or not run.fragment_ids_this_run or len(run.fragment_ids_this_run) > 1:
        return
    _resting[run.session_id, run.fragment_ids_this_run[0]] = _Rest(store, mark, run.query_string)
    while len(_resting) > _MOST:
        _resting.popitem(last=False)


def drop() -> None:
    """Patch Streamlit, once per process and before the first page. Leave an unknown version alone, with a warning."""
    if not hasattr(AppSession, "request_rerun") or "is_auto_rerun" not in ClientState.DESCRIPTOR.fields_by_name:
        logger.warning(
            "Streamlit %s is not supported: pages that wait keep the server and the browser busy. Install the version "
            "in constraints.txt.",
            st.__version__,
        )
        return
    request = AppSession.request_rerun

    def request_unless_resting(self: AppSession, asked: ClientState | None) -> None:
        if asked is None or not asked.is_auto_rerun or not _rests(self.id, asked):
            request(self, asked)

    AppSession.request_rerun = request_unless_resting  # type: ignore[method-assign]


def _rests(session: str, asked: ClientState) -> bool:
    found = _resting.get((session, asked.fragment_id))
    if found and found.address == asked.query_string and found.store.is_at(found.mark):
        return True
    _resting.pop((session, asked.fragment_id), None)
    return False
