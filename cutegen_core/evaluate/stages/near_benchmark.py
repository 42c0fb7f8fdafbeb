"""Run a candidate near each benchmark's sizes, on an executor that does not run the benchmark.

`full_sizes` chooses the sizes. A launch that occurs in no run of the trial is reported: nothing is known about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cutegen_core.evaluate.stages.full_sizes import (
    OFTEN,
    ChosenRun,
    count_threads,
    describe_sizes,
    find_affordable,
    find_with_launch,
    instance,
    limit_switches,
    plan_runs,
    without_spare,
)
from cutegen_core.evaluate.stages.other_values import choose_values, replace_values
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.runs import TURNED, OneRun
from cutegen_core.evaluate.stages.verdicts import RunVerdicts
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.judge.reference import Reference
from cutegen_core.records import operations as ops
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from cutegen_core.records.trial import ExecutorKind, Status
from cutegen_core.records.wording import listed

_EXTREME = re.compile(r"max|min")


@dataclass(frozen=True)
class NearBenchmark:
    """The runs near the benchmarks' sizes.

    Attributes:
        test_once: makes each of these runs, and judges it.
        sizes: how far towards each benchmark's sizes the candidate was judged, in words.
        not_near: names of benchmarks near whose sizes nothing ran.
        passed: names of the workloads that passed: ladders often end in the same sizes.
    """

    problem: Problem
    reference: Reference
    planned: PlannedKernel
    executor: ExecutorKind
    verdicts: RunVerdicts
    sizes: list[str]
    not_near: list[str]
    test_once: Callable[[Sequence[OneRun]], StageFailure | None]
    passed: set[str] = field(default_factory=set)

    def test(self) -> StageFailure | None:
        """Run near each benchmark's sizes; report a launch that is made only there."""
        small = self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
        made = {instance(launch) for workload in small for launch in self.planned.plans[workload.name].launches}
        for benchmark in self.problem.with_role(WorkloadRole.BENCHMARK):
            ran: list[ChosenRun] = []
            failure = self._test_ladders(benchmark, ran) or self._test_launches(benchmark, made, ran)
            self.sizes.append(describe_sizes(benchmark, self.reference.own_sizes(), [one.workload for one in ran]))
            if not ran:
                self.not_near.append(benchmark.name)
            made |= _instances(ran)
            failure = failure or self._find_untested_launch(benchmark, made)
            if failure:
                return failure
        if self.sizes:
            self.sizes[-1] += _say_never_made(self.planned, made)
        return None

    def _test_ladders(self, benchmark: Workload, ran: list[ChosenRun]) -> StageFailure | None:
        """Run the largest of each ladder; after a run that did not end in time, the smallest of this and the others."""
        slow, often = False, max(self.verdicts.switches.values(), default=0) > OFTEN
        of_a_thread = self._switches_of_a_thread()
        for ladder in without_spare(self.reference.find_full_sizes(benchmark)):
            met = [(one.cost, self.verdicts.switches[one.workload.name]) for one in ran]
            runs = limit_switches(plan_runs(self.reference, self.planned, benchmark, ladder), of_a_thread, met)
            if often and runs and not slow:
                failure, slow = self._test_by_smallest(runs, ran)
                if failure:
                    return failure
                continue
            for one in runs[-1:] if slow else (*runs[:1], *runs[1:][-1:]):
                failure = self._test_size(one, [_given(one), *self._ends(one)])
                if failure is None:
                    ran.append(one)
                    break
                if failure.status is not Status.TIMEOUT:
                    return failure
                slow = True
        return None

    def _test_launches(
        self, benchmark: Workload, made: set[tuple[int, str]], ran: list[ChosenRun]
    ) -> StageFailure | None:
        """Run where launches of the benchmark are made that no run has made so far, if there are such sizes."""
        own = {instance(launch) for launch in self.planned.plans[benchmark.name].launches}
        left = own - made - _instances(ran)
        while left and ran and (one := find_with_launch(self.reference, self.planned, benchmark, left)):
            failure = self._test_size(one, [_given(one)])
            if failure:
                return None if failure.status is Status.TIMEOUT else failure
            ran.append(one)
            left -= _instances(ran)
        return None

    def _switches_of_a_thread(self) -> float:
        """Return how often a thread was switched to in the small run in which that was most."""
        counted, plans = self.verdicts.switches.items(), self.planned.plans
        return max((count / count_threads(plans[name]) for name, count in counted if name in plans), default=0.0)

    def _test_by_smallest(self, runs: Sequence[ChosenRun], ran: list[ChosenRun]) -> tuple[StageFailure | None, bool]:
        """Run the smallest, then the largest that should end in time; return a failure, and whether one did not."""
        one = runs[-1]
        failure = self._test_size(one, [_given(one)])
        if failure is None:
            smallest, one = one, find_affordable(runs, self.verdicts.switches[one.workload.name])
            failure = self._test_size(one, self._ends(one) if one is smallest else [_given(one), *self._ends(one)])
            ran.append(smallest if failure else one)
        slow = failure is not None and failure.status is Status.TIMEOUT
        return None if slow else failure, slow

    def _test_size(self, one: ChosenRun, runs: Sequence[OneRun]) -> StageFailure | None:
        """Make those of these runs at one size that were not made; what takes too long leaves no verdict, since nothing
        is known about the kernel."""
        runs = [run for run in runs if run.workload.name not in self.passed]
        failure = self.test_once(runs)
        if failure is None:
            self.passed.update(run.workload.name for run in runs)
        if failure is None or failure.status is not Status.TIMEOUT:
            return failure
        slow = self.verdicts.kept.pop()
        return failure if slow.workload == one.workload.name else None

    def _ends(self, one: ChosenRun) -> list[OneRun]:
        """Return a run on each of the other values that are tried at such sizes, with threads in the other order."""
        runs = [replace_values(one.workload, values) for values in self._values]
        return [OneRun(workload, one.plan, derived=True, kind=TURNED) for workload in runs]

    @cached_property
    def _values(self) -> tuple[Values, ...]:
        """Return one dominant element a row, in the last place of the first: a part left out shows.

        Where the reference reduces, and no products take long, there are rows far below zero, too: code of long rows
        alone may begin a maximum at 0, or lose a variance.
        """
        below_zero = (Values.NEGATIVE_MEAN, Values.ALL_NEGATIVE) if self._only_reduces() else ()
        judged = {one.workload.values for one in choose_values(self.reference)}
        return tuple(values for values in (Values.DOMINANT, *below_zero) if values in judged)

    def _only_reduces(self) -> bool:
        """Return whether the reference has reductions or extremes, and no products."""
        nodes = self.reference.graph(self.problem.with_role(WorkloadRole.BENCHMARK)[0]).nodes
        flows = {ops.traits(node).flow for node in nodes}
        reduces = flows & ops.ROWS or any(_EXTREME.search(node.op) for node in nodes)
        return bool(reduces) and not flows & ops.PRODUCTS

    def _find_untested_launch(self, benchmark: Workload, made: set[tuple[int, str]]) -> StageFailure | None:
        """Return a failure if a launch occurs only at the benchmark's size, which this executor does not run."""
        for launch in self.planned.plans[benchmark.name].launches:
            if made and instance(launch) not in made:
                text = (
                    f"line {launch.line}: {launch.kernel} is launched for workload {benchmark.name} only, which the "
                    f"{self.executor} executor does not run: nothing is known about it here"
                )
                return StageFailure(Status.UNSUPPORTED, text)
        return None


def _say_never_made(planned: PlannedKernel, made: set[tuple[int, str]]) -> str:
    """Say of which launches nothing is known, since no run's sizes fulfil their conditions; "" if there is none."""
    lines = sorted({launch.line for launch in planned.kernel.launches} - {line for line, _ in made})
    if not lines:
        return ""
    which = f"line{'s' if len(lines) > 1 else ''} {listed(map(str, lines))}"
    return f"; no run makes the launch of {which}: nothing is known about what it computes"


def _given(one: ChosenRun) -> OneRun:
    return OneRun(one.workload, one.plan, derived=False)


def _instances(runs: Sequence[ChosenRun]) -> set[tuple[int, str]]:
    return {instance(launch) for one in runs for launch in one.plan.launches}
