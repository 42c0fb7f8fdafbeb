"""Which kernels of this workspace can be plugged into a run: accepted ones of sessions on the mean of neighbours."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.errors import CutegenError
from cutegen_core.records.event import SessionState
from cutegen_core.records.gnn import KERNEL_PREFIX
from cutegen_core.records.trial import Status
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.session import outcome_step, session_rows

PROBLEMS = ("gather_mean", "gather_mean_fp16", "gather_mean_bf16")
"""Their kernels compute the mean over neighbours, in one dtype each."""


class KernelChoice(NamedTuple):
    """A kernel to plug in; `aggregate` is its name in the settings."""

    aggregate: str
    words: str


def plugs_in(session: str, state: State) -> str:
    """Return the name of the session's accepted kernel in a run's settings; "" if it has none that fits."""
    step = outcome_step(state)
    if step is None or state.settings.problem_name not in PROBLEMS or state.status is not SessionState.ACCEPTED:
        return ""
    return f"{KERNEL_PREFIX}{session}.{step.number}"


def kernel_choices(store: Store) -> tuple[KernelChoice, ...]:
    """Return the kernels that can be plugged in, of the newest session first."""
    found = []
    for row in session_rows(store):
        if row.problem in PROBLEMS and row.status is SessionState.ACCEPTED:
            name = plugs_in(row.id, state_of(store, row.id))
            if name:
                found.append(KernelChoice(name, f"kernel of session {row.id}: {row.best_idea}"))
    return tuple(found)


def kernel_problem(store: Store, aggregate: str) -> str:
    """Say why this kernel cannot be plugged in; "" if it can, or if it is one of PyTorch's.

    Whether it computes what its place needs, the run tries on a small graph.
    """
    if not aggregate.startswith(KERNEL_PREFIX):
        return ""
    found = (_why_not(store, name) for name in aggregate.removeprefix(KERNEL_PREFIX).split("+"))
    return " ".join(why for why in found if why)


def _why_not(store: Store, name: str) -> str:
    session, _, number = name.partition(".")
    try:
        state = state_of(store, store.find_session(session))
    except CutegenError as error:
        return f"{error}."
    step = next((step for step in state.steps if str(step.number) == number), None)
    if step is None:
        return f"Session {session} has no step {number}."
    if step.status is not Status.PASSED:
        return f"The kernel of step {number} of session {session} has not passed."
    return ""
