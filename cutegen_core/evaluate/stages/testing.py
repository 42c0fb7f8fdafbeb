"""TEST: run the candidate on every small workload; the reference judges the outputs.

1. The reference worker generates the inputs from a seed.
2. The smallest workloads run once with detection of memory errors and races. These runs are also judged, so that a
   kernel which notices the instrumentation and does nothing fails. Here approximate instructions err upward.
3. Each workload runs twice, over different poison in the outputs and, if the executor has thread orders, in two orders;
   the expected values are computed only after the first run. Both runs must agree bit for bit, unless the kernel
   declares itself nondeterministic; then both are judged. Approximate instructions err downward, as far as documented;
   a kernel that executes some runs once more with errors upward.
4. Kinds of values that `get_inputs` does not draw run once each (`other_values`).
5. An executor that does not run the benchmark runs sizes near it (`full_sizes`), on given values and on dominant ones.
   A launch that occurs in none of all these runs is reported.

The emulator makes the runs on all processors, those of the next workload, too, before they are judged (`ahead`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cutegen_core.evaluate.stages.ahead import RunsAhead
from cutegen_core.evaluate.stages.full_sizes import OFTEN, ChosenRun, describe_sizes, find_affordable, plan_runs
from cutegen_core.evaluate.stages.other_values import choose_values, replace_values
from cutegen_core.evaluate.stages.preparing import CompiledCandidate, PlannedKernel
from cutegen_core.evaluate.stages.watch import StageFailure, Watch, raise_if_stopped
from cutegen_core.execute.port import Built, Execute, Executed, Execution, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.records.launch import Launch, LaunchPlan
from cutegen_core.records.problem import Problem, TensorSpec, Values, Workload, WorkloadRole
from cutegen_core.records.trial import Comparison, Status, WorkloadVerdict

NAN_POISON = 0xFF
"""Fill byte of unwritten outputs: every float is NaN."""

LOWER_EDGE, EXACT, UPPER_EDGE = -1, 0, 1
"""Ends of the documented errors of approximate instructions; an executor with real ones ignores them."""


def other_poison(seed: int) -> int:
    """Return another fill byte, which a kernel cannot predict: every float is a large finite number."""
    return 0x41 + seed % 0x1E


class _Ran(NamedTuple):
    """How a run ended, and its outputs."""

    executed: Executed
    outputs: Mapping[TensorSpec, Path]


@dataclass(frozen=True)
class _PreparedWorkload:
    """A workload whose inputs are written.

    Attributes:
        folder: of its outputs, one folder a run.
        checked: whether the instrumented build runs on it, too.
        derived: whether its values keep the structure of the file's own.
    """

    workload: Workload
    plan: LaunchPlan
    inputs: Mapping[TensorSpec, Path]
    folder: Path
    checked: bool
    derived: bool = False

    @property
    def checked_run(self) -> Path:
        return self.folder / "checked"

    @property
    def first_run(self) -> Path:
        return self.folder / "first"

    @property
    def second_run(self) -> Path:
        return self.folder / "second"

    @property
    def upper_run(self) -> Path:
        return self.folder / "upper"


class _OneRun(NamedTuple):
    """A run that is made once; `derived` values keep the structure of the file's own."""

    workload: Workload
    plan: LaunchPlan
    derived: bool


def _given(one: ChosenRun) -> list[_OneRun]:
    return [_OneRun(one.workload, one.plan, derived=False)]


def _remove(made: _PreparedWorkload) -> None:
    for folder in {made.folder, *(path.parent for path in made.inputs.values())}:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class CorrectnessStage:
    """The TEST stage of one trial.

    Attributes:
        instrumented: also run the builds that detect memory errors and races.
        verdicts: one per run, in order; the last one failed if `run` returns a failure.
        sizes: how far towards each benchmark's sizes it was judged, in words.
    """

    problem: Problem
    reference: Reference
    executor: Executor
    planned: PlannedKernel
    compiled: CompiledCandidate
    seed: int
    instrumented: bool
    run_timeout_s: float
    watch: Watch
    verdicts: list[WorkloadVerdict] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    _switches: dict[str, int] = field(default_factory=dict)
    """Workload -> the most thread switches of its runs."""

    def run(self) -> StageFailure | None:
        """Test every workload; its instrumented run comes before its plain ones."""
        scratch = Path(tempfile.mkdtemp(prefix="trial-", dir=self.reference.scratch))
        try:
            with self.executor.open(self.compiled.plain) as execute:
                failure = self._test_small(scratch, execute) or self._test_values(scratch, execute)
                return failure or (None if self.executor.measures_speed else self._test_sizes(scratch, execute))
        finally:
            self._ahead.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def _test_small(self, scratch: Path, execute: Execute) -> StageFailure | None:
        """Test the small workloads in their order."""
        small = self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
        prepared = (self._prepare(workload, scratch / str(n), execute) for n, workload in enumerate(small))
        return self._test_in_turn(prepared, partial(self._test_workload, execute=execute), 2)

    def _test_values(self, scratch: Path, execute: Execute) -> StageFailure | None:
        """Test the kinds of values that the file does not draw."""
        chosen, plans = choose_values(self.reference), self.planned.plans
        runs = (_OneRun(workload, plans[base.name], derived=True) for workload, base in chosen)
        return self._test_once(runs, scratch, execute)

    def _test_in_turn(
        self,
        prepared: Iterator[_PreparedWorkload],
        test: Callable[[_PreparedWorkload], StageFailure | None],
        ahead: int,
    ) -> StageFailure | None:
        """Test each; where runs are begun ahead, as many are prepared at a time."""
        begun: deque[_PreparedWorkload] = deque()
        try:
            while True:
                begun.extend(islice(prepared, (ahead if self._threads else 1) - len(begun)))
                failure = test(begun[0]) if begun else None
                if failure or not begun:
                    return failure
                _remove(begun.popleft())
        finally:
            self._ahead.drop()
            for left in begun:
                _remove(left)

    @cached_property
    def _ahead(self) -> RunsAhead[_Ran]:
        return RunsAhead(self._threads)

    @property
    def _threads(self) -> int:
        """How many runs may go on at a time: on a GPU, one after the other."""
        return len(os.sched_getaffinity(0)) if self.executor.has_thread_orders else 0

    def _prepare(self, workload: Workload, folder: Path, execute: Execute) -> _PreparedWorkload:
        """Write a workload's inputs, and begin the runs that every kernel makes on it."""
        raise_if_stopped(self.watch)
        smallest = workload.role is WorkloadRole.EMULATOR and workload.values is Values.GIVEN
        plan, checked = self.planned.plans[workload.name], self.instrumented and smallest
        made = _PreparedWorkload(workload, plan, self.reference.write_inputs(workload, self.seed), folder, checked)
        folder.mkdir()
        if checked:
            self._ahead.begin(made.checked_run, partial(self._run_checked, made))
        self._ahead.begin(made.first_run, partial(self._run_first, made, execute))
        self._ahead.begin(made.second_run, partial(self._run_second, made, execute))
        return made

    def _test_workload(self, made: _PreparedWorkload, execute: Execute) -> StageFailure | None:
        raise_if_stopped(self.watch)
        self.watch.say(f"workload {made.workload.name}")
        failure = self._check(made) if made.checked else None
        return failure or self._compare(made, execute)

    def _test_sizes(self, scratch: Path, execute: Execute) -> StageFailure | None:
        """Run near each benchmark's sizes; report a launch that is made only there."""
        small = self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
        made = {_made(launch) for workload in small for launch in self.planned.plans[workload.name].launches}
        for benchmark in self.problem.with_role(WorkloadRole.BENCHMARK):
            ran: list[ChosenRun] = []
            failure = self._test_ladders(benchmark, scratch, execute, ran)
            self.sizes.append(describe_sizes(benchmark, self.reference.own_sizes(), [one.workload for one in ran]))
            made |= {_made(launch) for one in ran for launch in one.plan.launches}
            failure = failure or self._find_untested_launch(benchmark, made)
            if failure:
                return failure
        return None

    def _test_ladders(
        self, benchmark: Workload, scratch: Path, execute: Execute, ran: list[ChosenRun]
    ) -> StageFailure | None:
        """Run the largest of each ladder; after a run that did not end in time, the smallest of this and the others."""
        slow, often = False, max(self._switches.values(), default=0) > OFTEN
        for ladder in self.reference.find_full_sizes(benchmark):
            runs = plan_runs(self.reference, self.planned, benchmark, ladder)
            if often and runs and not slow:
                failure, slow = self._test_by_smallest(runs, scratch, execute, ran)
                if failure:
                    return failure
                continue
            for one in runs[-1:] if slow else (*runs[:1], *runs[1:][-1:]):
                failure = self._test_size(one, [*_given(one), *self._ends(one)], scratch, execute)
                if failure is None:
                    ran.append(one)
                    break
                if failure.status is not Status.TIMEOUT:
                    return failure
                slow = True
        return None

    def _test_by_smallest(
        self, runs: Sequence[ChosenRun], scratch: Path, execute: Execute, ran: list[ChosenRun]
    ) -> tuple[StageFailure | None, bool]:
        """Run the smallest, then the largest that should end in time; return a failure, and whether one did not."""
        one = runs[-1]
        failure = self._test_size(one, _given(one), scratch, execute)
        if failure is None:
            smallest, one = one, find_affordable(runs, self._switches[one.workload.name])
            rest = self._ends(one) if one is smallest else [*_given(one), *self._ends(one)]
            failure = self._test_size(one, rest, scratch, execute)
            ran.append(smallest if failure else one)
        slow = failure is not None and failure.status is Status.TIMEOUT
        return None if slow else failure, slow

    def _test_size(
        self, one: ChosenRun, runs: Sequence[_OneRun], scratch: Path, execute: Execute
    ) -> StageFailure | None:
        """Make these runs at one size; what takes too long leaves no verdict: nothing is known about the kernel."""
        failure = self._test_once(runs, scratch, execute)
        if failure is None or failure.status is not Status.TIMEOUT:
            return failure
        slow = self.verdicts.pop()
        return failure if slow.workload == one.workload.name else None

    def _ends(self, one: ChosenRun) -> list[_OneRun]:
        """Return a run with one dominant element a row, in the last place of the first: a part left out shows."""
        ends = replace_values(one.workload, Values.DOMINANT)
        judged = any(workload.values is ends.values for workload, _ in choose_values(self.reference))
        return [_OneRun(ends, one.plan, derived=True)] if judged else []

    def _test_once(self, runs: Iterable[_OneRun], scratch: Path, execute: Execute) -> StageFailure | None:
        """Run on each workload once and judge.

        Approximate instructions do not err here: over a long row their errors would add up as they do on no device.
        """
        prepared = (
            self._prepare_once(_PreparedWorkload(
                workload, plan, self.reference.write_inputs(workload, self.seed, derived=derived),
                scratch / f"once-{n}", checked=False, derived=derived,
            ), execute)
            for n, (workload, plan, derived) in enumerate(runs)
        )  # fmt: skip
        return self._test_in_turn(prepared, partial(self._judge_once, execute=execute), self._threads + 1)

    def _prepare_once(self, made: _PreparedWorkload, execute: Execute) -> _PreparedWorkload:
        raise_if_stopped(self.watch)
        made.folder.mkdir()
        self._ahead.begin(made.first_run, partial(self._run_once, made, execute))
        return made

    def _run_once(self, made: _PreparedWorkload, execute: Execute, edge: int = EXACT) -> _Ran:
        folder = made.upper_run if edge == UPPER_EDGE else made.first_run
        return self._execute(
            execute, self.compiled.plain, made.workload, made.plan, made.inputs, folder, NAN_POISON, "forward", edge
        )

    def _judge_once(self, made: _PreparedWorkload, execute: Execute) -> StageFailure | None:
        raise_if_stopped(self.watch)
        self.watch.say(f"workload {made.workload.name}")
        return self._judge_plain(made, self._ahead.result(made.first_run, partial(self._run_once, made, execute)))

    def _judge_plain(self, made: _PreparedWorkload, ran: _Ran) -> StageFailure | None:
        """Judge what the plain build wrote in forward order."""
        if ran.executed.status is not Status.PASSED:
            self._record(made.workload, "plain", "forward", ran.executed)
            return StageFailure(ran.executed.status, ran.executed.message)
        return self._judge(made.workload, "plain", "forward", ran.executed, ran.outputs, derived=made.derived)

    def _check(self, made: _PreparedWorkload) -> StageFailure | None:
        ran, outputs = self._ahead.result(made.checked_run, partial(self._run_checked, made))
        if ran.status is not Status.PASSED:
            self._record(made.workload, "checked", "random", ran)
            return StageFailure(ran.status, ran.message)
        if not self.executor.has_thread_orders:  # compute-sanitizer does not return the outputs
            self._record(made.workload, "checked", "random", ran)
            return None
        return self._judge(made.workload, "checked", "random", ran, outputs)

    def _run_checked(self, made: _PreparedWorkload) -> _Ran:
        built = self.compiled.checked
        with self.executor.open(built) as execute:
            return self._execute(
                execute, built, made.workload, made.plan, made.inputs, made.checked_run, NAN_POISON, "random",
                UPPER_EDGE,
            )  # fmt: skip

    def _run_first(self, made: _PreparedWorkload, execute: Execute) -> _Ran:
        plain = self.compiled.plain
        return self._execute(
            execute, plain, made.workload, made.plan, made.inputs, made.first_run, NAN_POISON, "forward"
        )

    def _run_second(self, made: _PreparedWorkload, execute: Execute) -> _Ran:
        plain, poison = self.compiled.plain, self._second_poison
        return self._execute(execute, plain, made.workload, made.plan, made.inputs, made.second_run, poison, "reverse")

    def _find_untested_launch(self, benchmark: Workload, made: set[tuple[int, str]]) -> StageFailure | None:
        """Return a failure if a launch occurs only at the benchmark's size, which this executor does not run."""
        for launch in self.planned.plans[benchmark.name].launches:
            if made and _made(launch) not in made:
                text = (
                    f"line {launch.line}: {launch.kernel} is launched for workload {benchmark.name} only, which the "
                    f"{self.executor.kind} executor does not run: nothing is known about it here"
                )
                return StageFailure(Status.UNSUPPORTED, text)
        return None

    def _compare(self, made: _PreparedWorkload, execute: Execute) -> StageFailure | None:
        workload = made.workload
        ran, first = begun = self._ahead.result(made.first_run, partial(self._run_first, made, execute))
        failure = self._judge_plain(made, begun)
        if failure:
            return failure
        again, second = self._ahead.result(made.second_run, partial(self._run_second, made, execute))
        if again.status is not Status.PASSED:
            self._record(workload, "plain", "reverse", again)
            return StageFailure(again.status, again.message)
        if all(first[spec].read_bytes() == second[spec].read_bytes() for spec in first):
            self._record(workload, "plain", "reverse", again)
            return self._compare_upper_edge(made, execute) if ran.approximate else None
        if not self.planned.kernel.numerics.deterministic:
            failure = self._judge(workload, "plain", "reverse", again, second)
            return failure or (self._compare_upper_edge(made, execute) if ran.approximate else None)
        message = (
            f"workload {workload.name}: the output changes between two runs, with the thread order or with what the "
            "output buffer held before; if that is meant, declare `deterministic = false` under [numerics]"
        )
        self._record(workload, "plain", "reverse", replace(again, status=Status.NONDETERMINISTIC, message=message))
        return StageFailure(Status.NONDETERMINISTIC, message)

    def _compare_upper_edge(self, made: _PreparedWorkload, execute: Execute) -> StageFailure | None:
        """Judge a run in which approximate instructions err upward."""
        return self._judge_plain(made, self._run_once(made, execute, UPPER_EDGE))

    @property
    def _second_poison(self) -> int:
        return other_poison(self.seed)

    def _judge(
        self,
        workload: Workload,
        mode: str,
        order: str,
        ran: Executed,
        outputs: Mapping[TensorSpec, Path],
        *,
        derived: bool = False,
    ) -> StageFailure | None:
        poison = self._second_poison if order == "reverse" else NAN_POISON
        comparisons = self.reference.compare(workload, self.seed, outputs, poison=poison, derived=derived)
        wrong = next((c for c in comparisons if c.wrong), None)
        message = f"workload {workload.name}: {wrong.sentence}" if wrong else ""
        status = Status.INCORRECT_NUMERICAL if wrong else Status.PASSED
        self._record(workload, mode, order, replace(ran, status=status, message=message), comparisons)
        return StageFailure(status, message) if wrong else None

    def _execute(
        self,
        execute: Execute,
        built: Built,
        workload: Workload,
        plan: LaunchPlan,
        inputs: Mapping[TensorSpec, Path],
        folder: Path,
        poison: int,
        order: str,
        edge: int = LOWER_EDGE,
    ) -> _Ran:
        folder.mkdir(exist_ok=True)
        outputs = {spec: folder / spec.name for spec in self.reference.signature(workload).outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        seed = self.seed & 0xFFFF
        ran = execute(Execution(built, plan, inputs, outputs, poison, order, seed, self.run_timeout_s, edge))
        return _Ran(replace(ran, message=f"workload {workload.name}: {ran.message}" if ran.message else ""), outputs)

    def _record(
        self, workload: Workload, mode: str, order: str, ran: Executed, comparisons: tuple[Comparison, ...] = ()
    ) -> None:
        order = order if self.executor.has_thread_orders else ""
        self._switches[workload.name] = max(ran.switches, self._switches.get(workload.name, 0))
        self.verdicts.append(
            WorkloadVerdict(
                workload.name, mode, self.seed, ran.status, ran.seconds, order, ran.message, comparisons, ran.findings
            )
        )


def _made(launch: Launch) -> tuple[int, str]:
    """Return what tells launches apart: instances of one for other sizes are other code."""
    return launch.line, launch.kernel
