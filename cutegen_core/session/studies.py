"""Longer looks at a kernel that was written already: one table of studies, one answer, one event.

To add a study: a kind in `records.decision.StudyKind`, and a line in `STUDIES` with what refuses it and what does it.
A study that a person asks for always gives a result, if only the reason why it failed. A study inside a step gives that
step its kernel, so its errors stop the session as any error of a step does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cutegen_core.evaluate import ablation, sweep
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.errors import MachineError, ProblemError, UsageError
from cutegen_core.records.event import Event, Proposed, StageEnded, Studied
from cutegen_core.records.trial import ExecutorKind, Stage, StageResult, StageStatus
from cutegen_core.session import moves, request
from cutegen_core.session.writer import Writer
from cutegen_core.trajectory.state import State, Step, WantedStudy


class ChosenKernel(NamedTuple):
    """A kernel file that a study chose, with an idea and a plan as a proposer gives them."""

    source: str
    idea: str
    plan: str


class StudyResult(NamedTuple):
    """The record of a study, and the kernel it chose where it chose one."""

    record: object
    kernel: ChosenKernel | None = None


class StudyOf(NamedTuple):
    """How a study is refused and done.

    Attributes:
        refuse: why a person cannot have it for this candidate, "" where they can.
        run: raises MachineError, ProblemError or UsageError where it cannot be done, StoppedError when a
            person stops it.
    """

    refuse: Callable[[State, str], str]
    run: Callable[[Writer, str, Watch], StudyResult]


def refuse(state: State, study: StudyKind, candidate: str) -> str:
    """Return why a person cannot have this study of the candidate, "" where they can."""
    return STUDIES[study].refuse(state, candidate)


def carry_out(writer: Writer, wanted: WantedStudy, watch: Watch) -> Studied:
    """Return the result of a study that looks only; a failure is a result with its reason."""
    try:
        found = STUDIES[wanted.study].run(writer, wanted.candidate, watch)
    except (MachineError, ProblemError, UsageError) as error:
        return Studied(wanted.study, wanted.candidate, "", str(error))
    return Studied(wanted.study, wanted.candidate, writer.store.put_record(found.record))


def carry_out_in_step(writer: Writer, study: StudyKind, step: Step, watch: Watch) -> list[Event]:
    """Return the result of a study of the step's base, and the step's candidate where the study chose one."""
    assert step.base is not None
    if study not in CHOOSES_A_KERNEL:
        return [carry_out(writer, WantedStudy(study, step.base), watch)]
    begun = time.monotonic()
    found = STUDIES[study].run(writer, step.base, watch)
    assert found.kernel is not None
    source, idea, plan = found.kernel
    took = StageResult(Stage.GENERATE, StageStatus.PASSED, time.monotonic() - begun, study)
    return [
        Studied(study, step.base, writer.store.put_record(found.record), step=step.number),
        Proposed(step.number, writer.store.put(source), Author.PLAYBOOK, idea, plan, step.base),
        StageEnded(step.number, took),
    ]


def give_up(state: State, reason: str) -> list[Event]:
    """Answer the studies that wait: they failed for this reason."""
    return [Studied(study, candidate, "", reason) for study, candidate in state.studies_wanted]


def is_due(writer: Writer) -> bool:
    """Return whether the best kernel is swept before the session ends."""
    best = writer.state.best
    return best is not None and moves.is_sweep_due(writer.state) and is_tunable(writer.store.text(best))


# ---- the studies


def _sweep(writer: Writer, candidate: str, watch: Watch) -> StudyResult:
    base = request.load_candidate(writer.store, writer.state, candidate)
    table, source = sweep.sweep(writer.evaluator, base, secrets.randbits(31), watch)
    return StudyResult(table, ChosenKernel(source, sweep.describe(table), table.decided_by))


def _profile(writer: Writer, candidate: str, watch: Watch) -> StudyResult:
    kernel = request.load_candidate(writer.store, writer.state, candidate)
    return StudyResult(writer.evaluator.profile(kernel, seed=secrets.randbits(31), watch=watch))


def _ablate(writer: Writer, candidate: str, watch: Watch) -> StudyResult:
    step = writer.state.step_of(candidate)
    assert step is not None
    assert step.parent is not None
    before, after = writer.store.text(step.parent), writer.store.text(candidate)
    return StudyResult(ablation.ablate(writer.evaluator, before, after, secrets.randbits(31), watch))


def _refuse_sweep(state: State, candidate: str) -> str:
    return "A sweep is a step of its own: redirect with the word sweep."


def _refuse_profile(state: State, candidate: str) -> str:
    if state.settings.executor is not ExecutorKind.GPU:
        return "Profiling needs a GPU: start the session with the GPU executor."
    return "" if state.passed(candidate) else "Only a candidate that passed its tests can be profiled."


def _refuse_ablation(state: State, candidate: str) -> str:
    step = state.step_of(candidate)
    return "" if step and step.parent else "Only a change to another kernel has hunks that can be tried apart."


STUDIES: Mapping[StudyKind, StudyOf] = {
    StudyKind.SWEEP: StudyOf(_refuse_sweep, _sweep),
    StudyKind.PROFILE: StudyOf(_refuse_profile, _profile),
    StudyKind.ABLATION: StudyOf(_refuse_ablation, _ablate),
}
CHOOSES_A_KERNEL = (StudyKind.SWEEP,)
"""Studies that write the kernel of the step in which a proposer asks for them."""
