"""Choose the runs of TEST at the benchmark's sizes, or near them, on an executor that does not run the benchmark.

1. The reference worker lists sizes that fit a budget (`Reference.find_full_sizes`): the benchmark's own, or ladders in
   each of which one size is the benchmark's.
2. Of each ladder, the largest run counts that the kernel takes at most `MOST_SECONDS` for, by its speed on the largest
   small workload, and whose launches are those of the benchmark.
3. `describe_sizes` says how far that got.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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

Planned = tuple[Workload, LaunchPlan]


def choose_sizes(
    reference: Reference, planned: PlannedKernel, benchmark: Workload, measured: tuple[Workload, float]
) -> Iterator[Planned]:
    """Yield the workloads to run for one benchmark, each with its launch plan.

    Args:
        measured: a workload that ran, and its seconds.
    """
    workload, seconds = measured
    rate = max(seconds - _OVERHEAD_S, _SHORTEST_S) / _units(reference.cost(workload))
    wanted = _branches(planned.plans[benchmark.name])
    for ladder in reference.find_full_sizes(benchmark):
        affordable = [run for run in ladder if rate * _units(run.cost) <= MOST_SECONDS] or ladder[-1:]
        made = [one for run in affordable if (one := _plan(reference, planned, benchmark, run))]
        alike = [one for one in made if _branches(one[1]) == wanted]
        yield from (alike or made)[:1]


def describe_sizes(benchmark: Workload, own: Mapping[str, SizeValue], ran: Sequence[Workload]) -> str:
    """Say up to which sizes a kernel was judged, and whether the benchmark itself was among them."""
    full = {**own, **benchmark.sizes}
    if any({**full, **workload.sizes} == full for workload in ran):
        return f"judged at the sizes of {benchmark.name}"
    if not ran:
        return f"{benchmark.name}: its sizes were not run here, nor any near them"
    names = [name for name in full if any(w.sizes.get(name, full[name]) != full[name] for w in ran)]
    reached = {name: max(w.sizes.get(name, full[name]) for w in ran) for name in names}
    told = ", ".join(
        f"{name} = {reached[name]}" + ("" if reached[name] == full[name] else f" of {full[name]}")
        for name in names
    )
    turns = " in turn" if len(names) > 1 else ""
    return f"judged up to {told}{turns}; the sizes of {benchmark.name} together were not run here"


def _plan(reference: Reference, planned: PlannedKernel, benchmark: Workload, run: SizedRun) -> Planned | None:
    """Return the workload and its plan, or None if the plan does not fit these sizes."""
    shrunk = ", ".join(f"{n} = {v}" for n, v in run.sizes.items() if benchmark.sizes.get(n) != v)
    workload = replace(benchmark, role=WorkloadRole.CORRECTNESS, sizes=run.sizes, name=f"{benchmark.name} ({shrunk})")
    try:
        return workload, planned.plan_for(reference.signature(workload), workload.name)
    except KernelFileError:
        return None


def _branches(plan: LaunchPlan) -> tuple[object, ...]:
    """Return what of a plan depends on conditions over sizes, as far as it shows."""
    return tuple((one.line, one.kernel, one.block, one.cooperative, one.cluster, _flags(one)) for one in plan.launches)


def _flags(launch: Launch) -> tuple[bool | None, ...]:
    """Return the arguments that are true or false."""
    return tuple(
        bool(one.value) if isinstance(one, ScalarArgument) and isinstance(one.value, bool) else None
        for one in launch.args
    )


def _units(cost: Cost) -> int:
    return max(1, cost.elements + cost.flops)

