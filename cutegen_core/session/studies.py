"""Longer looks at a kernel that was written already: the sweep of its parameters, its profile, its hunks apart.

Each gives the events to append; that a look is impossible is an answer, too.
"""

from __future__ import annotations

import secrets
import time

from cutegen_core.evaluate import ablation, sweep
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.records.candidate import Author
from cutegen_core.records.errors import MachineError, ProblemError, UsageError
from cutegen_core.records.event import Ablated, Event, Profiled, Proposed, StageEnded, Swept
from cutegen_core.records.trial import Stage, StageResult, StageStatus
from cutegen_core.session import request
from cutegen_core.session.request import Bench
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store


def swept(store: Store, state: State, bench: Bench, step: Step, watch: Watch) -> list[Event]:
    """The sweep of the parameters that the step's base declares, and the kernel it chose."""
    assert step.base is not None
    begun = time.monotonic()
    base = request.candidate(store, state, step.base)
    table, source = sweep.sweep(bench.evaluator(state), base, secrets.randbits(31), watch)
    idea, plan = sweep.describe(table), table.decided_by
    took = StageResult(Stage.GENERATE, StageStatus.PASSED, time.monotonic() - begun, "sweep")
    return [
        Swept(step.number, store.put_record(table)),
        Proposed(step.number, store.put(source), Author.PLAYBOOK, idea, plan, step.base),
        StageEnded(step.number, took),
    ]


def profiled(store: Store, state: State, bench: Bench, candidate: str, watch: Watch) -> Event:
    """What the profiler says about a candidate."""
    try:
        kernel = request.candidate(store, state, candidate)
        profile = bench.evaluator(state).profile(kernel, seed=secrets.randbits(31), watch=watch)
        return Profiled(candidate, store.put_record(profile))
    except (MachineError, ProblemError, UsageError) as error:
        return Profiled(candidate, "", str(error))


def ablated(store: Store, state: State, bench: Bench, candidate: str, watch: Watch) -> Event:
    """What each hunk of a candidate's change is worth."""
    step = state.step_of(candidate)
    assert step is not None
    assert step.parent is not None
    try:
        before, after = store.text(step.parent), store.text(candidate)
        table = ablation.ablate(bench.evaluator(state), before, after, secrets.randbits(31), watch)
        return Ablated(candidate, store.put_record(table))
    except (ValueError, MachineError, ProblemError, UsageError) as error:
        return Ablated(candidate, "", str(error))


def wanted(state: State) -> bool:
    """Whether the person waits for a look at a kernel, whatever else the session does."""
    return state.profile_wanted is not None or state.ablation_wanted is not None


def given_up(state: State, reason: str) -> list[Event]:
    """Answers the looks that are wanted: they were not possible."""
    events: list[Event] = [Profiled(state.profile_wanted, "", reason)] if state.profile_wanted else []
    return [*events, Ablated(state.ablation_wanted, "", reason)] if state.ablation_wanted else events
