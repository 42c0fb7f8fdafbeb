"""The stage rail of a step: how its stops plan, patch, compile, test, benchmark, profile and promote stand."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cutegen_core.records.decision import Gate, StudyKind
from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.records.trial import Stage, StageStatus
from cutegen_core.trajectory.state import Phase, State, Step


class RailStatus(StrEnum):
    """The status of a stop."""

    FRESH = "fresh"
    RUNNING = "running"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class RailStop(NamedTuple):
    """A stop of the rail; `since` (seconds since the epoch) while it runs, `seconds` when it is over."""

    name: str
    status: RailStatus
    seconds: float | None = None
    since: float | None = None
    note: str = ""


def rail(state: State, step: Step | None) -> tuple[RailStop, ...]:
    """Return the stops plan, patch, compile, test, benchmark, profile, promote of a step."""
    current = step is not None and step is state.step and step.outcome is None
    results = {r.stage: r for r in step.stages} if step else {}
    stops = [_plan_stop(state, step, current)]
    asked = _asked_profile(state, step)
    for stage in (stage for stage in Stage if stage is not Stage.GENERATE):
        if asked is not None and stage is Stage.PROFILE:
            stops.append(asked)
        elif stage in results:
            result = results[stage]
            stops.append(RailStop(stage.lower(), RailStatus(result.status), result.seconds, None, result.note))
        elif current and state.running_stage is stage and state.phase is Phase.TESTING:
            stops.append(RailStop(stage.lower(), RailStatus.RUNNING, None, state.running_since))
        else:
            waiting = current and stage is Stage.PATCH and _waits_at(state, Gate.DIFF)
            stops.append(RailStop(stage.lower(), RailStatus.WAITING if waiting else RailStatus.FRESH))
    stops.append(_promote_stop(state, step, current))
    return tuple(stops)


def _asked_profile(state: State, step: Step | None) -> RailStop | None:
    """Return the stop of a profile that a person asked for, outside the trial; None if there is none."""
    if step is None or step.candidate is None:
        return None
    if state.wants_study(StudyKind.PROFILE, step.candidate):
        since = state.running_since if state.running_stage is Stage.PROFILE else None
        return RailStop("profile", RailStatus.RUNNING, None, since)
    found = state.study(StudyKind.PROFILE, step.candidate)
    if found is None:
        return None
    status = RailStatus.PASSED if found.result else RailStatus.FAILED
    return RailStop("profile", status, None, None, found.message)


def _plan_stop(state: State, step: Step | None, current: bool) -> RailStop:
    if step is None:
        return RailStop("plan", RailStatus.FRESH)
    generated = next((r for r in step.stages if r.stage is Stage.GENERATE), None)
    if generated is not None and generated.status is StageStatus.FAILED:
        return RailStop("plan", RailStatus.FAILED, generated.seconds, None, generated.note)
    if step.candidate is not None:
        waiting = current and _waits_at(state, Gate.PLAN)
        return RailStop("plan", RailStatus.WAITING if waiting else RailStatus.PASSED)
    if current and state.status is SessionState.RUNNING:
        return RailStop("plan", RailStatus.RUNNING, None, state.running_since or step.at)
    asked = RailStatus.WAITING if state.gate else RailStatus.FRESH
    return RailStop("plan", asked if current else RailStatus.SKIPPED)


def _promote_stop(state: State, step: Step | None, current: bool) -> RailStop:
    if step is None or step.tried is None:
        return RailStop("promote", RailStatus.FRESH)
    if current:
        return RailStop("promote", RailStatus.WAITING if _waits_at(state, Gate.PROMOTION) else RailStatus.FRESH)
    promoted = step.outcome is Outcome.PROMOTED
    return RailStop("promote", RailStatus.PASSED if promoted else RailStatus.SKIPPED, None, None, str(step.outcome))


def _waits_at(state: State, gate: Gate) -> bool:
    return state.gate is not None and state.gate.gate is gate
