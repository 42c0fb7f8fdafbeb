"""Choose the runs of TEST at the benchmark's sizes, or near them, on an executor that does not run the benchmark.

1. The reference worker lists sizes that fit a budget (`Reference.find_full_sizes`): the benchmark's own, or ladders in
   each of which one size is the benchmark's.
2. Of each ladder runs the largest that the kernel takes at most `MOST_SECONDS` for, by its speed in earlier runs, and
   whose launches are those of the benchmark. If it was faster than expected, a larger one follows.
3. `describe_sizes` says how far that got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutegen_core.evaluate.stages.preparing import PlannedKernel
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.judge.reference import Reference
from cutegen_core.judge.reference_process.full_sizes import SizedRun
from cutegen_core.judge.reference_process.reduction import Cost
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument
from cutegen_core.records.problem import Workload, WorkloadRole

MOST_SECONDS = 1.5
"""Wall clock of one run, as estimated."""

_OVERHEAD_S = 0.02
_SHORTEST_S = 0.001


class ChosenRun(NamedTuple):
    """A run that is affordable, with its workload and launch plan."""

    run: SizedRun
    workload: Workload
    plan: LaunchPlan


@dataclass
class SizedRuns:
    """The runs for one benchmark. Ask for the next one, and tell how long each took.

    Attributes:
        rate: seconds a unit of cost, from the latest run.
    """

    reference: Reference
    planned: PlannedKernel
    benchmark: Workload
    rate: float

    def learn(self, run: SizedRun, seconds: float) -> None:
        """Learn the kernel's speed from a run."""
        self.rate = _rate(run.cost, seconds)

    def choose(self, ladder: Sequence[SizedRun], largest: SizedRun | None) -> ChosenRun | None:
        """Return the largest affordable run of a ladder, or None if there is none above `largest`.

        The smallest run is always affordable, since a small kernel's time says little about its speed.
        """
        above = [run for run in ladder if largest is None or _units(run.cost) > _units(largest.cost)]
        affordable = [run for run in above if self.rate * _units(run.cost) <= MOST_SECONDS]
        if largest is None:
            affordable = affordable or above[-1:]
        wanted = _branches(self.planned.plans[self.benchmark.name])
        made = [chosen for run in affordable if (chosen := self._plan(run))]
        alike = [chosen for chosen in made if _branches(chosen.plan) == wanted]
        return next(iter(alike or made), None)

    def _plan(self, run: SizedRun) -> ChosenRun | None:
        """Return the run with its plan, or None if the plan does not fit these sizes."""
        told = ", ".join(f"{name} = {run.sizes[name]}" for name in run.changed)
        name = f"{self.benchmark.name} at {told}" if told else f"{self.benchmark.name}, here"
        workload = replace(self.benchmark, role=WorkloadRole.CORRECTNESS, sizes=run.sizes, name=name)
        try:
            return ChosenRun(run, workload, self.planned.plan_for(self.reference.signature(workload), name))
        except KernelFileError:
            return None


def first_rate(reference: Reference, workload: Workload, seconds: float) -> float:
    """Return seconds a unit of cost, from a workload and the seconds it took."""
    return _rate(reference.cost(workload), seconds)


def describe_sizes(benchmark: Workload, own: Mapping[str, SizeValue], ran: Sequence[Workload]) -> str:
    """Say up to which sizes a kernel was judged, and whether the benchmark itself was among them."""
    full = {**own, **benchmark.sizes}
    if any({**full, **workload.sizes} == full for workload in ran):
        return f"judged at the sizes of {benchmark.name}"
    if not ran:
        return f"the sizes of {benchmark.name}, or any near them, were not run here"
    names = [name for name in full if any(w.sizes.get(name, full[name]) != full[name] for w in ran)]
    told = ", ".join(_describe_size(name, full[name], [w.sizes.get(name, full[name]) for w in ran]) for name in names)
    turns = " in turn" if len(names) > 1 else ""
    return f"judged up to {told}{turns}; the sizes of {benchmark.name} together were not run here"


def _describe_size(name: str, full: SizeValue, ran: Sequence[SizeValue]) -> str:
    if full in ran:
        return f"{name} = {full}"
    return f"{name} = {max(ran, key=lambda value: value if isinstance(value, tuple) else (value,))} of {full}"


def _branches(plan: LaunchPlan) -> tuple[object, ...]:
    """Return what of a plan depends on conditions over sizes, as far as it shows."""
    return tuple((one.line, one.kernel, one.block, one.cooperative, one.cluster, _flags(one)) for one in plan.launches)


def _flags(launch: Launch) -> tuple[bool | None, ...]:
    """Return the arguments that are true or false."""
    return tuple(
        bool(one.value) if isinstance(one, ScalarArgument) and isinstance(one.value, bool) else None
        for one in launch.args
    )


def _rate(cost: Cost, seconds: float) -> float:
    return max(seconds - _OVERHEAD_S, _SHORTEST_S) / _units(cost)


def _units(cost: Cost) -> int:
    return max(1, cost.elements + cost.flops)
