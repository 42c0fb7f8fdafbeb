"""Read models for the pages and the command line: rows ready to be drawn, computed from the store alone."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from cutegen_core.candidate import Author
from cutegen_core.decision import Autonomy, Gate
from cutegen_core.errors import StoreError
from cutegen_core.event import ModelAnswered, Outcome, Role, SessionState, Tried
from cutegen_core.problem import Problem
from cutegen_core.session_state import Phase, State, Step, apply
from cutegen_core.store import ENGINE_LINE, Store
from cutegen_core.trial import Resources, Stage, StageStatus, Status, Trial


class RailStatus(StrEnum):
    """How one stop of the stage rail stands."""

    FRESH = "fresh"
    RUNNING = "running"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class RailStop(NamedTuple):
    """One stop of the rail; `since` (seconds since the epoch) while it runs, `seconds` when it is over."""

    name: str
    status: RailStatus
    seconds: float | None = None
    since: float | None = None
    note: str = ""


class StepRow(NamedTuple):
    """One line of the timeline."""

    number: int
    idea: str
    author: Author | None
    candidate: str | None
    parent: str | None
    status: Status | None
    outcome: Outcome | None
    message: str
    registers: int
    spill_bytes: int
    smem_bytes: int
    latency_ms: float | None
    at: float
    is_best: bool
    is_base: bool


class SessionRow(NamedTuple):
    """One line of the list of sessions."""

    id: str
    problem: str
    proposer: str
    executor: str
    status: SessionState
    steps: int
    best_idea: str
    created_at: float
    updated_at: float
    origin: str


class SessionView(NamedTuple):
    """Everything the header, the rail, the timeline and the decide bar draw."""

    id: str
    state: State
    problem: Problem
    steps: tuple[StepRow, ...]
    rail: tuple[RailStop, ...]
    live: str
    can_approve: bool
    can_accept: str | None

    @property
    def working(self) -> bool:
        """The engine is at it, or will be at once; nobody is asked anything."""
        return self.state.status in (SessionState.READY, SessionState.RUNNING)


class CallView(NamedTuple):
    """One exchange with a model; `reply` is None while it runs."""

    role: Role
    model: str
    prompt: str
    reply: str | None
    answer: ModelAnswered | None


class StepView(NamedTuple):
    """One step in full.

    `base_source` is what the diff is against, `prompt` what waits at a prompt or reply gate, `calls` what was asked and
    answered, `trial` None until the step was tried.
    """

    step: Step
    source: str
    base_source: str
    prompt: str
    calls: tuple[CallView, ...]
    trial: Trial | None


class Delta(NamedTuple):
    """One line of a comparison; numbers are None where a candidate has none."""

    name: str
    unit: str
    left: float | None
    right: float | None


class MixRow(NamedTuple):
    """The instructions of one compiled step by class, all its kernels together."""

    step: int
    mix: Mapping[str, int]


def session_rows(store: Store) -> list[SessionRow]:
    """All sessions, newest first."""
    return [_session_row(session, _state(store, session)) for session in store.sessions()]


def session_view(store: Store, session: str) -> SessionView:
    """The whole session; StoreError when it does not exist."""
    state = _state(store, session)
    best = state.best if state.best and state.passed(state.best) else None
    shown = state.open_step or state.step
    accepts = shown.candidate if shown and shown.passed else best
    return SessionView(
        id=session,
        state=state,
        problem=_problem(store, state.settings.problem),
        steps=tuple(_step_row(step, state) for step in state.steps),
        rail=rail(state, state.step),
        live=store.live(session),
        can_approve=state.gate is not None and state.gate.gate in (Gate.PLAN, Gate.DIFF, Gate.PROMOTION),
        can_accept=accepts if state.status is not SessionState.ACCEPTED and not state.settings.imported else None,
    )


def step_view(store: Store, session: str, number: int) -> StepView:
    """One step with its texts; StoreError when the session has no such step."""
    state = _state(store, session)
    step = next((s for s in state.steps if s.number == number), None)
    if step is None:
        raise StoreError(f"session {session} has no step {number}; it has {len(state.steps)}")

    def text(key: str | None) -> str:
        return store.text(key) if key else ""

    tried = step.tried
    trial = _trial(store, tried.trial) if tried and tried.trial else None
    waiting = state.gate.prompt if state.gate and step is state.step else ""
    calls = tuple(
        CallView(
            call.role, call.model, text(call.prompt), text(call.answer.reply) if call.answer else None, call.answer
        )
        for call in step.calls
    )
    return StepView(step, text(step.candidate), text(step.parent or step.base), text(waiting), calls, trial)


def acceptance_trial(store: Store, state: State) -> Trial | None:
    """The trial that accepted (or refused to accept) the candidate."""
    tried: Tried | None = state.acceptance
    return store.record(Trial, tried.trial) if tried and tried.trial else None


def rail(state: State, step: Step | None) -> tuple[RailStop, ...]:
    """The stops plan, patch, compile, test, benchmark, profile, promote for one step."""
    current = step is not None and step is state.step and step.outcome is None
    results = {r.stage: r for r in step.stages} if step else {}
    stops = [_plan_stop(state, step, current)]
    for stage in (Stage.PATCH, Stage.COMPILE, Stage.TEST, Stage.BENCHMARK, Stage.PROFILE):
        if stage in results:
            result = results[stage]
            stops.append(RailStop(stage.lower(), RailStatus(result.status), result.seconds, None, result.note))
        elif current and state.running_stage is stage and state.phase is Phase.TESTING:
            stops.append(RailStop(stage.lower(), RailStatus.RUNNING, None, state.running_since))
        else:
            stops.append(RailStop(stage.lower(), RailStatus.FRESH))
    stops.append(_promote_stop(state, step, current))
    return tuple(stops)


def compare(left: Trial | None, right: Trial | None) -> tuple[Delta, ...]:
    """What two candidates cost, line by line: registers, spills, shared memory, occupancy, instruction mix."""
    a, b = (_numbers(t.resources) if t and t.resources else {} for t in (left, right))
    names = list(dict.fromkeys([*a, *b]))
    return tuple(Delta(name, _unit(name), a.get(name), b.get(name)) for name in names)


def mix_rows(store: Store, state: State) -> tuple[MixRow, ...]:
    """The instruction mix of every step that was compiled."""
    found = ((step.number, _trial(store, step.tried.trial)) for step in state.steps if step.tried and step.tried.trial)
    return tuple(MixRow(number, _mix(trial.resources)) for number, trial in found if trial.resources)


def instruction_mix(trial: Trial | None) -> Mapping[str, int]:
    """Instructions by class over all kernels; empty when it was not compiled."""
    return _mix(trial.resources) if trial and trial.resources else {}


def base_trial(store: Store, state: State, step: Step) -> Trial | None:
    """The trial of the candidate this step's kernel was made from; None when that was never tried."""
    parent = step.parent or step.base
    made_from = state.step_of(parent) if parent and parent != step.candidate else None
    tried = made_from.tried if made_from else None
    return _trial(store, tried.trial) if tried and tried.trial else None


def chips(view: SessionView, shown: StepView | None) -> tuple[str, ...]:
    """At most five instructions ready for a Redirect: the playbook's other kernels by name, since it knows no
    other words, else what the evidence of the shown step suggests."""
    menu = _menu(view.state)
    if menu:
        return menu[:5]
    trial = shown.trial if shown else None
    found = [*_from_failure(trial), *_from_resources(trial)]
    best = view.state.step_of(view.state.best) if view.state.best else None
    if trial and not trial.passed and best and shown and best.number != shown.step.number:
        found.append(f"start again from step {best.number}")
    return tuple(dict.fromkeys(found))[:5]


def engine_line(store: Store) -> str:
    """What the engine itself is doing ("preparing the emulator ..."), "" when it is ready. See `store.ENGINE_LINE`."""
    return store.live(ENGINE_LINE)


def autonomy_words() -> Mapping[Autonomy, str]:
    """What each autonomy mode does, for the person."""
    return {
        Autonomy.STEP: "stops at every gate that is on",
        Autonomy.UNTIL_FAILURE: "goes on by itself and stops at the first failure",
        Autonomy.AUTO: "goes on by itself to the end",
        Autonomy.PLAN_ONLY: "stops at every plan",
    }


# ---- inside

_folded: dict[tuple[str, str], State] = {}
_fold_lock = threading.Lock()


def _state(store: Store, session: str) -> State:
    """The state, folded on from where the last call left off."""
    key = (str(store.path), session)
    with _fold_lock:
        state = _folded.get(key)
        for recorded in store.events(session, after=state.seq if state else 0):
            state = apply(state, recorded)
        if state is None:
            raise StoreError(f"there is no session {session}; the start page lists them")
        _folded[key] = state
    return state


@lru_cache(maxsize=512)
def _trial(store: Store, key: str) -> Trial:
    """A stored trial; blobs never change."""
    return store.record(Trial, key)


def _mix(resources: Resources) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for kernel in resources.kernels:
        for name, count in kernel.instruction_mix.items():
            total[name] = total.get(name, 0) + count
    return total


def _menu(state: State) -> tuple[str, ...]:
    """The kernels the playbook names in its last plan, without the one that plan is about."""
    plans = (step.plan for step in reversed(state.steps) if step.author is Author.PLAYBOOK)
    found = re.search(r"^(\w[^:\n]*):.*\nMenu: (.+)\.$", next(plans, ""), re.MULTILINE)
    return tuple(name for name in found[2].split(" -> ") if name != found[1]) if found else ()


def _from_failure(trial: Trial | None) -> list[str]:
    if trial is None or trial.passed:
        return []
    words: list[str] = []
    if trial.status in (Status.COMPILE_ERROR, Status.REJECTED, Status.LAUNCH_ERROR) and trial.diagnostics:
        first = trial.diagnostics[0]
        words.append(f"fix line {first.line}: {first.message}"[:90] if first.line else f"fix: {first.message}"[:90])
    failed = trial.correctness.first_failure if trial.correctness else None
    for finding in failed.findings[:1] if failed else ():
        words.append(f"{finding.kind} on {finding.variable or 'memory'} at line {finding.line}: fix it"[:90])
    for comparison in failed.comparisons[:1] if failed else ():
        if comparison.pattern:
            words.append(f"{comparison.pattern}: fix it"[:90])
    return words


def _from_resources(trial: Trial | None) -> list[str]:
    resources = trial.resources if trial else None
    if resources is None:
        return []
    words = (
        [f"spills {resources.spill_bytes} B: use fewer registers or a smaller tile"] if resources.spill_bytes else []
    )
    rows = [row for row in resources.occupancy if row.occupancy < 0.5 and row.waves >= 1]
    if rows:
        row = min(rows, key=lambda r: r.occupancy)
        words.append(f"occupancy {100 * row.occupancy:.0f} %, limited by {row.limiter}: use less of it")
    return words


def _problem(store: Store, key: str) -> Problem:
    return store.record(Problem, key)


def _session_row(session: str, state: State) -> SessionRow:
    best = state.step_of(state.best) if state.best else None
    settings = state.settings
    return SessionRow(
        session,
        settings.problem_name,
        settings.proposer,
        settings.executor,
        state.status,
        len(state.steps),
        best.idea if best else "",
        state.created_at,
        state.updated_at,
        settings.origin,
    )


def _step_row(step: Step, state: State) -> StepRow:
    tried = step.tried
    return StepRow(
        step.number,
        step.idea or step.instruction,
        step.author,
        step.candidate,
        step.parent,
        step.status,
        step.outcome,
        tried.message if tried else step.note,
        tried.registers if tried else 0,
        tried.spill_bytes if tried else 0,
        tried.smem_bytes if tried else 0,
        tried.latency_ms if tried else None,
        step.at,
        step.candidate is not None and step.candidate == state.best,
        step.candidate is not None and step.candidate == state.base,
    )


def _plan_stop(state: State, step: Step | None, current: bool) -> RailStop:
    if step is None:
        return RailStop("plan", RailStatus.FRESH)
    generated = next((r for r in step.stages if r.stage is Stage.GENERATE), None)
    if generated is not None and generated.status is StageStatus.FAILED:
        return RailStop("plan", RailStatus.FAILED, generated.seconds, None, generated.note)
    if step.candidate is not None:
        waiting = current and state.gate is not None and state.gate.gate in (Gate.PLAN, Gate.DIFF)
        return RailStop("plan", RailStatus.WAITING if waiting else RailStatus.PASSED)
    if current and state.status is SessionState.RUNNING:
        return RailStop("plan", RailStatus.RUNNING, None, state.running_since or step.at)
    return RailStop("plan", RailStatus.WAITING if current else RailStatus.SKIPPED)


def _promote_stop(state: State, step: Step | None, current: bool) -> RailStop:
    if step is None or step.tried is None:
        return RailStop("promote", RailStatus.FRESH)
    if current:
        waiting = state.gate is not None and state.gate.gate is Gate.PROMOTION
        return RailStop("promote", RailStatus.WAITING if waiting else RailStatus.FRESH)
    promoted = step.outcome is Outcome.PROMOTED
    return RailStop("promote", RailStatus.PASSED if promoted else RailStatus.SKIPPED, None, None, str(step.outcome))


def _numbers(resources: Resources) -> dict[str, float]:
    numbers: dict[str, float] = {"compile": resources.compile_seconds}
    for kernel in resources.kernels:
        prefix = f"{kernel.kernel} " if len(resources.kernels) > 1 else ""
        numbers[f"{prefix}registers"] = kernel.registers
        numbers[f"{prefix}spill stores"] = kernel.spill_store_bytes
        numbers[f"{prefix}spill loads"] = kernel.spill_load_bytes
        numbers[f"{prefix}static shared memory"] = kernel.smem_static_bytes
        for name, count in sorted(kernel.instruction_mix.items(), key=lambda item: -item[1]):
            numbers[f"{prefix}SASS {name}"] = count
    for row in resources.occupancy:
        numbers[f"occupancy, {row.workload}, {row.kernel}"] = 100 * row.occupancy
    return numbers


def _unit(name: str) -> str:
    if name == "compile":
        return "s"
    if name.startswith("occupancy"):
        return "%"
    if "spill" in name or "memory" in name:
        return "B"
    return "instructions" if "SASS" in name else ""
