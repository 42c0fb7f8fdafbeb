"""What a step is given and what it leaves behind: the proposer's request, the candidate, the record of its trial.

Plain functions of the state and the store; the loop itself is in `session`.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Protocol

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.variant import spent
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Attempt, Call, ProposalRequest, Proposer
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.event import ModelAnswered, Outcome, Tried
from cutegen_core.records.performance import BEST, Profile
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import Status, Trial
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store


class Bench(Protocol):
    """Where a session gets its tools; making them may start processes, so they are made when first needed."""

    def proposer(self, state: State) -> Proposer: ...

    def model(self, state: State) -> Model | None:
        """Who answers prompts; None when a person carries them."""

    def evaluator(self, state: State) -> Evaluator: ...


def request(store: Store, state: State, bench: Bench, step: Step) -> ProposalRequest:
    """Everything the proposer may look at for this step."""
    evaluator, model = bench.evaluator(state), bench.model(state)
    workload = (evaluator.problem.with_role(WorkloadRole.BENCHMARK) or evaluator.problem.workloads)[-1]
    previous = [s for s in state.steps if s.outcome is not None]
    base = state.step_of(step.base) if step.base else None
    return ProposalRequest(
        problem=evaluator.problem,
        signature=evaluator.reference.signature(workload),
        graph=evaluator.reference.graph(workload),
        device=evaluator.device,
        base=candidate(store, state, step.base) if step.base else None,
        attempts=tuple(_attempt(s) for s in previous),
        base_trial=_trial_of(store, base) if base else None,
        failure=_trial_of(store, previous[-1]) if step.repair else None,
        instruction=step.instruction,
        standing=state.standing,
        context_tokens=model.context_tokens(state) if model else 0,
        can_profile=evaluator.can_profile,
        profile=_profile_of(store, state, step.base),
        profile_note=_profile_note(state, step.base),
        peaks=evaluator.peaks,
        calls=tuple(_call(store, c.answer) for c in step.calls if c.answer and not c.answer.error),
    )


def candidate(store: Store, state: State, key: str) -> Candidate:
    """The candidate under that key, with what its step says about it."""
    step = state.step_of(key)
    author = step.author if step and step.author else Author.IMPORT
    return Candidate(store.text(key), author, step.parent if step else None, step.idea if step else "")


def tried(store: Store, number: int, trial: Trial, *, acceptance: bool = False) -> Tried:
    """The event of a finished trial; the trial itself becomes a blob."""
    occupancy = trial.resources.occupancy if trial.resources else ()
    numbers = spent(trial)
    return Tried(
        number,
        trial.candidate,
        store.put(as_json.dump(trial)),
        trial.status,
        trial.message,
        registers=numbers.registers,
        spill_bytes=numbers.spill_bytes,
        smem_bytes=max((o.smem_bytes for o in occupancy), default=0),
        latency_ms=numbers.latency_ms,
        against_best=None if trial.cached else numbers.word,
        best_untimed="" if trial.cached else _best_untimed(trial),
        marks=trial.marks,
        acceptance=acceptance,
    )


def _best_untimed(trial: Trial) -> str:
    workload = trial.performance.first if trial.performance else None
    return next((u.reason for u in workload.untimed if u.contender == BEST), "") if workload else ""


def to_repair(state: State, wanted: int) -> Step | None:
    """The step whose failed candidate the next one mends; None when `wanted` repairs are used up."""
    failed = list(takewhile(lambda s: s.outcome is Outcome.FAILED, reversed(state.steps)))
    repairs = sum(1 for step in failed if step.repair)
    return failed[0] if failed and repairs < wanted and not state.instruction else None


def mended(failed: Step) -> str | None:
    """What a repair goes on from: the failed kernel, or where there was none, what it was to be made from."""
    return failed.base if failed.status in (Status.UNPARSED, Status.PATCH_FAILED) else failed.candidate


def _trial_of(store: Store, step: Step) -> Trial | None:
    return store.record(Trial, step.verdict.trial) if step.verdict and step.verdict.trial else None


def _profile_of(store: Store, state: State, candidate: str | None) -> Profile | None:
    profiled = state.profiles.get(candidate or "")
    return store.record(Profile, profiled.profile) if profiled and profiled.profile else None


def _profile_note(state: State, candidate: str | None) -> str:
    profiled = state.profiles.get(candidate or "")
    return profiled.message if profiled else ""


def _call(store: Store, answer: ModelAnswered) -> Call:
    return Call(answer.role, store.text(answer.prompt), store.text(answer.reply), answer.finish)


def _attempt(step: Step) -> Attempt:
    outcome = step.memory or (f"{step.outcome}: {step.note}" if step.note else str(step.outcome))
    promoted = step.outcome is Outcome.PROMOTED
    rejected = step.outcome is Outcome.REJECTED
    return Attempt(step.number, step.idea, step.candidate or "", step.status, outcome, promoted, rejected)
