"""Take a candidate through the stages: a step's trial, or the test before a kernel is accepted."""

from __future__ import annotations

import secrets
from dataclasses import replace

from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.records.candidate import content_key
from cutegen_core.records.event import (
    AlternativeTried,
    Event,
    Outcome,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    TrialStarted,
)
from cutegen_core.records.trial import Mark, Stage, StageStatus, Trial
from cutegen_core.session import request
from cutegen_core.session.writer import AlternativeWatch, TrialWatch, Writer
from cutegen_core.trajectory.state import TRANSIENT_STATUSES, Alternative, Step

_ACCEPTED = "passed again with fresh inputs"


def try_candidate(writer: Writer, step: Step) -> list[Event]:
    """Try the step's candidate, or take its stored trial; return the verdict as an event."""
    assert step.candidate is not None
    writer.append(TrialStarted(step.number, step.candidate))
    trial = _stored_trial(writer, step.candidate)
    if trial is None:
        return [
            request.tried_event(writer.store, step.number, _evaluate(writer, step.candidate, best=writer.state.best))
        ]
    stages = (r if r.status is StageStatus.SKIPPED else replace(r, note="from cache") for r in trial.stages)
    ended = [StageEnded(step.number, replace(r, seconds=0.0)) for r in stages]
    return [*ended, request.tried_event(writer.store, step.number, trial)]


def try_alternative(writer: Writer, alternative: Alternative) -> list[Event]:
    """Try an alternative of the open step, or take its stored trial; the same text once more shares its verdict."""
    step = writer.open_step
    writer.append(StageStarted(step.number, Stage.GENERATE))
    same = (a.tried for a in step.alternatives if a.candidate == alternative.candidate and a.tried)
    known = next(same, None)
    if known is not None:
        return [AlternativeTried(step.number, alternative.number, known)]
    watch = AlternativeWatch(writer, f"candidate {alternative.number} of {step.width}")
    trial = _stored_trial(writer, alternative.candidate) or _evaluate(
        writer, alternative.candidate, best=writer.state.best, watch=watch
    )
    return [AlternativeTried(step.number, alternative.number, request.tried_event(writer.store, step.number, trial))]


def accept(writer: Writer, candidate: str) -> list[Event]:
    """Test the candidate again with fresh inputs and every check; return what comes of it."""
    number = len(writer.state.steps)
    writer.append(TrialStarted(number, candidate, acceptance=True))
    trial = _evaluate(writer, candidate, thorough=True)
    if trial.passed:
        ended = next((step.note for step in writer.state.steps[-1:] if step.outcome is Outcome.UNANSWERED), "")
        verdict = StateChanged(SessionState.ACCEPTED, "; ".join(filter(None, [ended, _ACCEPTED])))
    else:
        verdict = StateChanged(SessionState.AWAITING_REVIEW, f"the acceptance test failed: {trial.message}")
    return [request.tried_event(writer.store, number, trial, acceptance=True), verdict]


def _evaluate(
    writer: Writer, candidate: str, *, best: str | None = None, thorough: bool = False, watch: Watch | None = None
) -> Trial:
    """Evaluate the candidate and store its trial where a later step may use it.

    Args:
        best: the kernel to time in turns with the candidate, where anything is timed.
        watch: by default one that writes the stages into the trajectory.
    """
    evaluator, state = writer.evaluator, writer.state
    rival = best if best and best != candidate else None
    trial = evaluator.evaluate(
        request.load_candidate(writer.store, state, candidate),
        seed=secrets.randbits(31),
        watch=watch or TrialWatch(writer),
        thorough=thorough,
        best=request.load_candidate(writer.store, state, rival) if rival else None,
    )
    unfinished = evaluator.measures_speed and Mark.NOT_TIMED in trial.marks
    if trial.status not in TRANSIENT_STATUSES and not unfinished:
        writer.store.cache_trial(_key(writer, candidate), writer.store.put_record(trial))
    return trial


def _stored_trial(writer: Writer, candidate: str) -> Trial | None:
    """Return the stored trial of an unchanged candidate, or None.

    A stored time does not count against another kernel's: where a timed best must be beaten, a kernel that passed is
    tried, and timed in turns with it, again. Acceptance never asks for a stored trial.
    """
    cached = writer.store.cached_trial(_key(writer, candidate))
    if cached is None:
        return None
    trial = replace(writer.store.record(Trial, cached.trial), cached=True)
    return None if trial.passed and _has_rival(writer, candidate) else trial


def _has_rival(writer: Writer, candidate: str) -> bool:
    """Return whether another kernel is the best and time decides between the two."""
    return writer.state.best not in (None, candidate) and writer.evaluator.measures_speed


def _key(writer: Writer, candidate: str) -> str:
    """Return the key of the candidate's trial. A time holds for one device: GPUs of one arch differ in speed."""
    settings, evaluator = writer.state.settings, writer.evaluator
    device = (evaluator.device.uuid or evaluator.device.name) if evaluator.measures_speed else ""
    parts = [
        candidate,
        writer.state.problem,
        settings.executor,
        settings.arch,
        *([device] if device else []),
        judge_digest(),
    ]
    return content_key(" ".join(parts))
