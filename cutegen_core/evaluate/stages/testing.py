"""TEST: run the candidate on every small workload; the reference judges the outputs.

1. The reference worker generates the inputs from a seed.
2. The smallest workloads run once with detection of memory errors and races. These runs are also judged, so that a
   kernel which notices the instrumentation and does nothing fails. Here approximate instructions err upward.
3. Each workload runs twice, over different poison in the outputs and, if the executor has thread orders, in two orders;
   the expected values are computed only after the first run. Both runs must agree bit for bit, unless the kernel
   declares itself nondeterministic; then both are judged. Approximate instructions err downward, as far as documented;
   a kernel that executes some runs once more with errors upward.
4. Kinds of values that `get_inputs` does not draw run once each (`other_values`), nearly equal indices instrumented:
   what is written at them meets. Those on a second workload run with threads in the other order.
5. An executor that does not run the benchmark runs sizes near it (`near_benchmark`), on given values and, in the other
   order, on dominant ones. A launch that occurs in none of all these runs is reported.

The runs, those of the next workload, too, are made before they are judged, on the emulator on all processors (`runs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from cutegen_core.evaluate.stages.near_benchmark import NearBenchmark
from cutegen_core.evaluate.stages.other_values import choose_values
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.runs import (
    CHECKED,
    FIRST,
    MEETING,
    ONCE,
    SECOND,
    TURNED,
    UPPER,
    CandidateRuns,
    OneRun,
    PreparedWorkload,
    open_runs,
)
from cutegen_core.evaluate.stages.tested_builds import TestedBuilds
from cutegen_core.evaluate.stages.verdicts import PARTED, RunVerdicts
from cutegen_core.evaluate.stages.watch import StageFailure, Watch, raise_if_stopped
from cutegen_core.execute.port import Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from cutegen_core.records.trial import SharedAccess, Status, WorkloadVerdict

_CHANGES = (
    "the output changes between two runs, with the thread order or with what the output buffer held before; if that is "
    "meant, declare `deterministic = false` under [numerics]"
)


@dataclass
class CorrectnessStage:
    """The TEST stage of one trial.

    Attributes:
        instrumented: also run the builds that detect memory errors and races.
        verdicts: one per run, in order; the last one failed if `run` returns a failure.
        sizes: how far towards each benchmark's sizes it was judged, in words.
        not_near: names of benchmarks near whose sizes nothing ran.
        shared: how each kernel's warps access shared memory, where that was counted.
    """

    problem: Problem
    reference: Reference
    executor: Executor
    planned: PlannedKernel
    builds: TestedBuilds
    seed: int
    instrumented: bool
    run_timeout_s: float
    watch: Watch
    verdicts: list[WorkloadVerdict] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    not_near: list[str] = field(default_factory=list)
    shared: dict[str, SharedAccess] = field(default_factory=dict)
    _runs: CandidateRuns | None = None

    def run(self) -> StageFailure | None:
        """Test every workload; its instrumented run comes before its plain ones."""
        with open_runs(self.reference, self.executor, self.builds, self.seed, self.run_timeout_s) as runs:
            self._runs = runs
            failure = self._test_small(runs) or self._test_values(runs)
            return failure or (None if self.executor.measures_speed else self._test_sizes(runs))

    def give_up(self) -> None:
        """End the runs that go on, from another thread; `run` then raises CancelledError, or StoppedError."""
        if self._runs:
            self._runs.ahead.give_up()

    def _test_small(self, runs: CandidateRuns) -> StageFailure | None:
        """Test the small workloads in their order."""
        small = self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
        prepared = (self._prepare(runs, str(number), workload) for number, workload in enumerate(small))
        return runs.test_in_turn(prepared, partial(self._test_workload, runs), 2)

    def _test_values(self, runs: CandidateRuns) -> StageFailure | None:
        """Test the kinds of values that the file does not draw."""
        chosen, plans = choose_values(self.reference), self.planned.plans
        wanted = (
            OneRun(one.workload, plans[one.base.name], derived=True, kind=TURNED if one.again else ONCE)
            for one in chosen
        )
        return self._test_once(runs, wanted)

    def _test_sizes(self, runs: CandidateRuns) -> StageFailure | None:
        return NearBenchmark(
            self.problem, self.reference, self.planned, self.executor.kind, self._judge, self.sizes,
            self.not_near, partial(self._test_once, runs),
        ).test()  # fmt: skip

    def _prepare(self, runs: CandidateRuns, name: str, workload: Workload) -> PreparedWorkload:
        """Begin the runs that every kernel makes on a small workload."""
        raise_if_stopped(self.watch)
        smallest = workload.role is WorkloadRole.EMULATOR and workload.values is Values.GIVEN
        kinds = (CHECKED, FIRST, SECOND) if self.instrumented and smallest else (FIRST, SECOND)
        return runs.prepare(name, workload, self.planned.plans[workload.name], kinds)

    def _test_workload(self, runs: CandidateRuns, made: PreparedWorkload) -> StageFailure | None:
        self._begin_judging(made)
        failure = self._check(runs, made) if CHECKED in made.kinds else None
        return failure or self._compare(runs, made)

    def _check(self, runs: CandidateRuns, made: PreparedWorkload) -> StageFailure | None:
        ran = runs.result(made, CHECKED)
        if self.executor.has_thread_orders or ran.executed.status is not Status.PASSED:
            return self._judge.judge(made, CHECKED, ran)
        self._judge.record(made, CHECKED, ran.executed)  # compute-sanitizer does not return the outputs
        return None

    def _compare(self, runs: CandidateRuns, made: PreparedWorkload) -> StageFailure | None:
        first = runs.result(made, FIRST)
        failure = self._judge.judge(made, FIRST, first)
        if failure:
            return failure
        second = runs.result(made, SECOND)
        if second.executed.status is not Status.PASSED:
            return self._judge.fail(made, SECOND, second.executed)
        if all(first.outputs[spec].read_bytes() == second.outputs[spec].read_bytes() for spec in first.outputs):
            self._judge.record(made, SECOND, second.executed)
        elif self.planned.kernel.numerics.deterministic:
            message = f"workload {made.workload.name}: {_CHANGES}{PARTED if second.executed.parted else ''}"
            changed = replace(second.executed, status=Status.NONDETERMINISTIC, message=message)
            return self._judge.fail(made, SECOND, changed)
        else:
            failure = self._judge.judge(made, SECOND, second)
        if failure or not first.executed.approximate:
            return failure
        return self._judge.judge(made, UPPER, runs.result(made, UPPER))

    def _test_once(self, runs: CandidateRuns, wanted: Iterable[OneRun]) -> StageFailure | None:
        """Run on each workload once and judge."""
        prepared = (self._prepare_once(runs, f"once-{number}", one) for number, one in enumerate(wanted))
        return runs.test_in_turn(prepared, partial(self._judge_once, runs), runs.threads + 1)

    def _prepare_once(self, runs: CandidateRuns, name: str, one: OneRun) -> PreparedWorkload:
        raise_if_stopped(self.watch)
        meets = self.instrumented and self.executor.has_thread_orders and one.workload.values is Values.HUB
        return runs.prepare(name, one.workload, one.plan, (MEETING if meets else one.kind,), derived=one.derived)

    def _judge_once(self, runs: CandidateRuns, made: PreparedWorkload) -> StageFailure | None:
        self._begin_judging(made)
        (kind,) = made.kinds
        return self._judge.judge(made, kind, runs.result(made, kind))

    def _begin_judging(self, made: PreparedWorkload) -> None:
        raise_if_stopped(self.watch)
        self.watch.say(f"workload {made.workload.name}")

    @cached_property
    def _judge(self) -> RunVerdicts:
        return RunVerdicts(
            self.reference, self.seed, self.executor.has_thread_orders, self.verdicts, shared=self.shared
        )
