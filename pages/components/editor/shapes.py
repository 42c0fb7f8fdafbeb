"""Get the shapes of a problem's workloads from its reference, in the background: that starts a process and takes
seconds, and no page waits for it."""

from __future__ import annotations

from concurrent.futures import Future

import streamlit as st

from cutegen_core.machine import background
from cutegen_core.records.problem import Problem
from cutegen_core.views.plan_preview import Signatures, signatures_of

_KEPT = 64
_ASKED_AGAIN_S = 600
"""Ask again after this: a busy machine or a broken reference may have been the cause."""


def shapes(problem: Problem) -> Future[Signatures]:
    """Return the shapes of every workload as a future; the first call for a problem starts the work."""
    return _asked(problem.key, problem)


@st.cache_resource(show_spinner=False, max_entries=_KEPT, ttl=_ASKED_AGAIN_S)
def _asked(key: str, _problem: Problem) -> Future[Signatures]:
    return background.begin("shapes", signatures_of, _problem)
