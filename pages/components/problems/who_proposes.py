"""Say before a session starts who could propose kernels: whether the playbook knows the problem, and who else."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from cutegen_core.propose.playbook import Coverage
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.problem import Problem
from cutegen_core.records.wording import counted
from cutegen_core.views.who_proposes import ask_playbook
from pages.components.shared import places
from pages.components.shared.texts import note, quiet

POLL_S = 0.5
_KEPT = 64
_ASKED_AGAIN_S = 600
BUILT_IN = "built-in"
"""Origin of the problems that the playbook is made for: it is not asked about them."""
_OTHERS = (
    "Others can: a model (proposer llm), any model by copy and paste (proposer person), or you, with Edit & run, from "
    "a skeleton with the right signature."
)


def render_who_proposes(problem: Problem, proposer: AnsweredBy) -> None:
    """Draw what the playbook offers for this problem, where the session is to ask it."""
    if proposer is AnsweredBy.PLAYBOOK and problem.origin != BUILT_IN and problem.workloads:
        st.fragment(_answer, run_every=None if _asked(problem.key, problem).done() else POLL_S)(problem)


def _answer(problem: Problem) -> None:
    asked = _asked(problem.key, problem)
    if not asked.done():
        quiet("● Asking the playbook whether it knows this problem …")
        return
    try:
        found = asked.result()
    except CutegenError as error:
        note("warning", f"The playbook cannot be asked: {error}")
        return
    if found.kernels:
        kernels, families = (", ".join(words) for words in (found.kernels, found.families))
        quiet(f"The playbook has {counted(len(found.kernels), 'kernel')} for it ({families}): {kernels}.")
        return
    note("warning", f"The playbook does not know this problem: {found.missing}. {_OTHERS}")
    st.page_link(places.setup(), label="Set up a model")


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    """Return the one thread that asks: a reference takes seconds of a processor."""
    return ThreadPoolExecutor(1, thread_name_prefix="who-proposes")


@st.cache_resource(show_spinner=False, max_entries=_KEPT, ttl=_ASKED_AGAIN_S)
def _asked(key: str, _problem: Problem) -> Future[Coverage]:
    return _pool().submit(ask_playbook, _problem)
