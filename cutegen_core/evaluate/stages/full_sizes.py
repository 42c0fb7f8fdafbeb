"""Choose the runs of TEST at the benchmark's sizes, or near them, on an executor that does not run the benchmark.

1. The reference worker lists sizes that fit a budget (`Reference.find_full_sizes`): the benchmark's own, or ladders in
   each of which one size is the benchmark's.
2. Of each ladder runs the largest that has no more threads than the emulator runs in about a second, should have no
   more switches between threads than take it about two, and if possible has the benchmark's launches; if the kernel
   does not end in time, the smallest. A thread should be switched to as often as at small sizes. Of a kernel whose
   threads often wait the smallest runs first. The choice does not depend on how busy the machine is, so that the
   verdict does not either.
3. Where the benchmark has a launch that none of these has, the smallest sizes at which it is made run, too
   (`find_with_launch`).
4. `describe_sizes` says how far that got.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.judge.problem_source import SizeValue, numbers_of
from cutegen_core.judge.reference import Reference
from cutegen_core.judge.reference_process.forwards import Cost
from cutegen_core.judge.reference_process.full_sizes import SMALLEST, SizedRun
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument
from cutegen_core.records.problem import Workload, WorkloadRole, list_sizes, size_label

MOST_THREADS = 1 << 22
"""Threads of one run; a thread that waits for no other costs about 50 ns."""

MOST_WAITING_THREADS = 1 << 18
"""The same where threads wait for one another: each costs about 2 µs."""

_HOPELESS = 8
"""A run with so many times the most threads would not end within its time limit, whatever the kernel."""

OFTEN = 1 << 23
"""Switches between threads in a small run of a kernel whose threads often wait."""

MOST_SWITCHES = 1 << 24
"""Of one run: each costs about 0.13 µs."""

_WAITS = re.compile(r"__sync|__shfl|__ballot|__any|__all|__match|__reduce|cooperative_groups|barrier|\bbar\.|cp_async")


class ChosenRun(NamedTuple):
    """The workload of a run, its launch plan, what the reference does there, and whether a size is very small."""

    workload: Workload
    plan: LaunchPlan
    cost: Cost
    is_tiny: bool = False


def plan_runs(
    reference: Reference, planned: PlannedKernel, benchmark: Workload, ladder: Sequence[SizedRun]
) -> tuple[ChosenRun, ...]:
    """Return the affordable runs of a ladder with their plans, the largest first.

    They are those with the benchmark's launches if there are any.
    """
    wanted = _branches(planned.plans[benchmark.name])
    made = tuple(chosen for run in ladder if (chosen := _plan(reference, planned, benchmark, run)))
    affordable = limit_threads(made, _most_threads(planned))
    return tuple(chosen for chosen in affordable if _branches(chosen.plan) == wanted) or affordable


def without_spare(ladders: Sequence[Sequence[SizedRun]]) -> Sequence[Sequence[SizedRun]]:
    """Return the ladders in which a size is the benchmark's, or all if there is none: others are for launches that
    these do not make."""
    every = {name for ladder in ladders for name in ladder[0].changed}
    return [ladder for ladder in ladders if set(ladder[0].changed) < every] or ladders


def find_with_launch(
    reference: Reference, planned: PlannedKernel, benchmark: Workload, wanted: Container[tuple[int, str]]
) -> ChosenRun | None:
    """Return the run near the benchmark with the fewest threads that has a wanted launch (its line, its kernel)."""
    runs = (
        _plan(reference, planned, benchmark, run) for ladder in reference.find_full_sizes(benchmark) for run in ladder
    )
    found = [one for one in runs if one and any(instance(launch) in wanted for launch in one.plan.launches)]
    smallest = min(found, key=lambda one: count_threads(one.plan), default=None)
    if smallest is None or count_threads(smallest.plan) > _HOPELESS * _most_threads(planned):
        return None
    return smallest


def instance(launch: Launch) -> tuple[int, str]:
    """Return what tells launches apart: instances of one for other sizes are other code."""
    return launch.line, launch.kernel


def _most_threads(planned: PlannedKernel) -> int:
    return MOST_WAITING_THREADS if _WAITS.search(planned.kernel.text) else MOST_THREADS


def limit_threads(runs: Sequence[ChosenRun], most: int) -> tuple[ChosenRun, ...]:
    """Return those with at most so many threads; else the last and smallest, unless that is hopeless."""
    fitting = tuple(one for one in runs if count_threads(one.plan) <= most)
    return fitting or tuple(last for last in runs[-1:] if count_threads(last.plan) <= _HOPELESS * most)


def limit_switches(
    runs: Sequence[ChosenRun], of_a_thread: float, met: Sequence[tuple[Cost, int]] = ()
) -> tuple[ChosenRun, ...]:
    """Return those that should need at most MOST_SWITCHES, else the last and smallest.

    Tiny ones are left out, unless even the smallest of the others should need twice as many.
    A thread should need `of_a_thread`, as at small sizes, or more if runs near the benchmark `met` (their costs and
    switches) needed more for their size.
    """

    def expect(one: ChosenRun) -> float:
        by_cost = min((switches * _growth(cost, one.cost) for cost, switches in met), default=0.0)
        return max(count_threads(one.plan) * of_a_thread, by_cost)

    usual = tuple(one for one in runs if not one.is_tiny)
    if usual and expect(usual[-1]) <= 2 * MOST_SWITCHES:
        runs = usual
    return tuple(one for one in runs if expect(one) <= MOST_SWITCHES) or tuple(runs[-1:])


def find_affordable(runs: Sequence[ChosenRun], switches: int) -> ChosenRun:
    """Return the largest run that should need at most MOST_SWITCHES, where the last and smallest needed so many."""
    smallest = runs[-1].cost
    affordable = (one for one in runs[:-1] if switches * _growth(smallest, one.cost) <= MOST_SWITCHES)
    return next(affordable, runs[-1])


def _growth(small: Cost, large: Cost) -> float:
    """Return how many times the work of the one the other is."""
    return max(large.elements / max(small.elements, 1), large.flops / max(small.flops, 1))


def _plan(reference: Reference, planned: PlannedKernel, benchmark: Workload, run: SizedRun) -> ChosenRun | None:
    """Return the run with its plan, or None if the plan does not fit these sizes."""
    told = list_sizes({name: run.sizes[name] for name in run.changed})
    name = f"{benchmark.name} at {told}" if told else f"{benchmark.name}, here"
    workload = replace(benchmark, role=WorkloadRole.CORRECTNESS, sizes=run.sizes, name=name)
    try:
        plan = planned.plan_for(reference.signature(workload), name)
    except KernelFileError:
        return None
    return ChosenRun(workload, plan, run.cost, is_tiny(run, {**reference.own_sizes(), **benchmark.sizes}))


def is_tiny(run: SizedRun, full: Mapping[str, SizeValue]) -> bool:
    """Return whether a number that is another one than in the benchmark's `full` sizes is below SMALLEST."""
    pairs = (zip(numbers_of(run.sizes[name]), numbers_of(full[name]), strict=True) for name in run.changed)
    return any(now < SMALLEST and now != then for of_size in pairs for now, then in of_size)


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
        return f"{size_label(name)} = {full}"
    return f"{size_label(name)} = {max(ran, key=numbers_of)} of {full}"


def count_threads(plan: LaunchPlan) -> int:
    """Return the threads of all launches of a plan."""
    return sum(prod(launch.grid) * prod(launch.block) for launch in plan.launches)


def _branches(plan: LaunchPlan) -> tuple[object, ...]:
    """Return what of a plan depends on conditions over sizes, as far as it shows."""
    return tuple((one.line, one.kernel, one.block, one.cooperative, one.cluster, _flags(one)) for one in plan.launches)


def _flags(launch: Launch) -> tuple[bool | None, ...]:
    """Return the arguments that are true or false."""
    return tuple(
        bool(one.value) if isinstance(one, ScalarArgument) and isinstance(one.value, bool) else None
        for one in launch.args
    )
