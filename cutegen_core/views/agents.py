"""Compare sessions on one existing kernel that differ in who worked on it: four roles, or one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.records.performance import EXISTING, WorkloadPerformance
from cutegen_core.records.trial import Status
from cutegen_core.trajectory.read import state_of, trial_of
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store


class AgentShape(NamedTuple):
    """The best kernel at one timed workload; `over_existing` is the existing kernel's time / its own."""

    workload: str
    latency_us: float
    over_existing: float | None


class AgentRun(NamedTuple):
    """How one session went.

    Attributes:
        failed: steps whose kernel did not pass.
        over_existing: over all shapes, the geometric mean; None where nothing was timed.
        shapes: empty where nothing was timed.
        suite: what became of the testing role's last suite, "" without one.
    """

    agents: str
    session: str
    state: SessionState
    reason: str
    steps: int
    failed: int
    tokens: int
    best_idea: str
    verdict: Status | None
    over_existing: float | None
    shapes: tuple[AgentShape, ...]
    suite: str


def agent_run(store: Store, session: str, agents: str) -> AgentRun:
    """Return how a session went; `agents` names who worked."""
    state = state_of(store, session)
    best = state.best_step
    tried = best.verdict if best else None
    trial = trial_of(store, tried.trial) if tried and tried.trial else None
    performance = trial.performance if trial else None
    mean = overall(performance)
    return AgentRun(
        agents,
        session,
        state.status,
        state.reason,
        sum(step.tried is not None for step in state.steps),
        sum(step.outcome is Outcome.FAILED for step in state.steps),
        state.tokens,
        best.idea if best else "",
        best.status if best else None,
        _ratio(mean) if mean else None,
        tuple(_shape(workload) for workload in performance.workloads) if performance else (),
        _suite(state),
    )


def agent_lines(runs: Sequence[AgentRun]) -> Iterator[str]:
    """Yield the comparison as a table for a terminal."""
    yield f"{'':30}" + "".join(f"{run.agents:>24}" for run in runs)
    facts: dict[str, Sequence[object]] = {
        "state": [run.state for run in runs],
        "steps tried": [run.steps for run in runs],
        "failed": [run.failed for run in runs],
        "tokens": [f"{run.tokens:,}" for run in runs],
        "verdict of the best": [run.verdict or "-" for run in runs],
    }
    for name, values in facts.items():
        yield f"{name:30}" + "".join(f"{value!s:>24}" for value in values)
    names = dict.fromkeys(shape.workload for run in runs for shape in run.shapes)
    for name in names:
        yield f"{name:30}" + "".join(f"{_time(run, name):>24}" for run in runs)
    if names:
        yield f"{'over the existing, all shapes':30}" + "".join(f"{_times(run.over_existing):>24}" for run in runs)
    else:
        yield "nothing was timed: there is no GPU"
    for run in runs:
        yield f"{run.agents}: {run.best_idea or 'no kernel'}; session {run.session}; {run.reason}"


def _shape(workload: WorkloadPerformance) -> AgentShape:
    return AgentShape(workload.workload, workload.candidate.median_us, _ratio(workload))


def _ratio(workload: WorkloadPerformance) -> float | None:
    beside = workload.speedup(EXISTING)
    return beside.ratio if beside else None


def _suite(state: State) -> str:
    last = state.suites[-1] if state.suites else None
    return f"{'trusted' if last.trusted else 'not trusted'}: {last.message}" if last else ""


def _time(run: AgentRun, workload: str) -> str:
    shape = next((shape for shape in run.shapes if shape.workload == workload), None)
    return f"{shape.latency_us:.2f} us ({_times(shape.over_existing)})" if shape else "-"


def _times(ratio: float | None) -> str:
    return f"{ratio:.2f}x" if ratio else "-"
