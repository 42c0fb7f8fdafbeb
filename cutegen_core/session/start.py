"""Start a session or a bench, or send a session a decision: all that pages and command line write into the store."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from cutegen_core.kernel.edit_words import say_edit
from cutegen_core.machine.default_executor import default_executor
from cutegen_core.machine.device import choose_device
from cutegen_core.propose import registry
from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchSettings
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort, Gate
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Role, SessionCreated, SessionSettings
from cutegen_core.records.job import JobKind
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import counted
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store, Ticket

DEFAULT_GATES = (Gate.DIFF, Gate.PROMOTION)


def create(
    store: Store,
    problem: Problem,
    *,
    answered_by: AnsweredBy,
    strategy: str = "cutegen",
    executor: ExecutorKind | None = None,
    autonomy: Autonomy = Autonomy.STEP,
    gates: tuple[Gate, ...] | None = None,
    max_steps: int = 40,
    arch: str | None = None,
    model: str = "",
    max_tokens: int | None = None,
    recording: str = "",
    roles: Mapping[Role, AnsweredBy] | None = None,
    allow_regressions: bool = False,
    tune: bool = False,
    effort: Effort | None = None,
) -> str:
    """Create a session and return its id; the engine starts it at once.

    Args:
        executor: by default the GPU if there is one of that `arch`, otherwise the emulator.
        gates: by default those of `default_gates`.

    Raises:
        UsageError: several candidates a step, or a limit in money, do not fit who answers.
    """
    device = choose_device(arch)
    settings = SessionSettings(
        problem=store.put_record(problem),
        problem_name=problem.name,
        answered_by=answered_by,
        strategy=strategy,
        executor=executor or default_executor(device),
        arch=device.arch,
        device_name=device.name,
        autonomy=autonomy,
        gates=default_gates(strategy) if gates is None else gates,
        max_steps=max_steps,
        model=model,
        max_tokens=max_tokens,
        recording=recording,
        roles=roles or {},
        allow_regressions=allow_regressions,
        tune=tune,
        effort=effort or Effort(),
        title=problem.title,
    )
    registry.check_effort(settings)
    return store.create_session(SessionCreated(settings))


def default_gates(strategy: str) -> tuple[Gate, ...]:
    """Return the gates that are on at first: with roles, also the one where a role's answer is reviewed."""
    known = registry.STRATEGIES.get(strategy)
    return (Gate.ANSWER, *DEFAULT_GATES) if known and known.roles else DEFAULT_GATES


def _named(store: Store, decision: Decision) -> Decision:
    if decision.kind is not DecisionKind.EDIT or decision.text or not decision.source:
        return decision
    return replace(
        decision, text=say_edit(store.text(decision.candidate) if decision.candidate else "", decision.source)
    )


def submit(store: Store, session: str, decision: Decision) -> int:
    """Submit a decision; return its number for `Store.ticket`. An edit without a name is named by what it changes."""
    return store.submit(session, _named(store, decision))


def await_answer(store: Store, number: int, wait_s: float) -> Ticket:
    """Wait up to `wait_s` seconds for the engine to take or refuse a decision; return how it stands."""
    deadline = time.monotonic() + wait_s
    while not (ticket := store.ticket(number)).taken and time.monotonic() < deadline:
        time.sleep(0.01)
    return ticket


def create_bench(store: Store, settings: BenchSettings) -> str:
    """Create a bench and return its id; the engine starts it as soon as no other one runs.

    Raises:
        UsageError: it has no problems, no such architecture or model exists, a person would have to answer, or several
            candidates a step, or a limit in money, do not fit who answers.
    """
    if not settings.problems:
        raise UsageError(f"{settings.set_name} has no problems")
    choose_device(settings.arch or None)
    each = SessionSettings(
        "", "", settings.answered_by, ExecutorKind.CPU, "", "", strategy=settings.strategy, model=settings.model,
        effort=settings.effort,
    )  # fmt: skip
    registry.check_alone(each)
    tuned = ", tuned" if settings.tune else ""
    title = f"{settings.set_name}: {counted(len(settings.problems), 'problem')}, {settings.answered_by}{tuned}"
    return jobs.create(store, JobKind.BENCH, title, as_json.dump(settings))
