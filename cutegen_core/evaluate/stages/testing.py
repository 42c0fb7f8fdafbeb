"""TEST: the candidate on every small workload, judged by the reference.

1. Inputs come from the reference worker, by seed.
2. The smallest workloads run once with what finds memory errors and races, and are judged like any other run: a kernel
   that notices the watching and does nothing must not come through.
3. Each workload runs twice, over differently poisoned outputs and, where the executor has thread orders, in two of
   them; the expected values come into being only after the first run. Both must agree bit for bit, or the kernel
   declares that they need not and both are judged.
4. A launch that none of these workloads makes is known only by what it does at the problem's own size; an executor
   that does not run that says so.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cutegen_core.evaluate.stages.preparing import Compiled, Planned
from cutegen_core.evaluate.stages.watch import Failure, Watch, pause
from cutegen_core.execute.port import Built, Execute, Executed, Execution, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.records.problem import Problem, TensorSpec, Values, Workload, WorkloadRole
from cutegen_core.records.trial import Comparison, Status, WorkloadVerdict

NAN_POISON = 0xFF
"""Fill byte of unwritten outputs: every float is NaN."""


def other_poison(seed: int) -> int:
    """Another fill byte, which a kernel cannot know beforehand: every float is a large finite number."""
    return 0x41 + seed % 0x1E


@dataclass
class Testing:
    """The TEST stage of one trial.

    Attributes:
        instrumented: also run what finds memory errors and races.
        verdicts: one per run, in order; the last is the failed one when `run` returns a failure.
    """

    problem: Problem
    reference: Reference
    executor: Executor
    planned: Planned
    compiled: Compiled
    seed: int
    instrumented: bool
    run_timeout_s: float
    watch: Watch
    verdicts: list[WorkloadVerdict] = field(default_factory=list)

    def run(self) -> Failure | None:
        """Every workload, the instrumented runs of each before its plain ones."""
        scratch = Path(tempfile.mkdtemp(prefix="trial-", dir=self.reference.scratch))
        try:
            with self.executor.open(self.compiled.plain) as execute:
                for workload in self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS):
                    failure = self._workload(workload, scratch, execute)
                    if failure:
                        return failure
            return None if self.executor.measures_speed else self._never_launched()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _workload(self, workload: Workload, scratch: Path, execute: Execute) -> Failure | None:
        pause(self.watch)
        self.watch.say(f"workload {workload.name}")
        inputs = self.reference.write_inputs(workload, self.seed)
        try:
            smallest = workload.role is WorkloadRole.EMULATOR and workload.values is Values.GIVEN
            failure = self._check(workload, inputs, scratch) if self.instrumented and smallest else None
            return failure or self._compare(workload, inputs, scratch, execute)
        finally:
            for folder in {path.parent for path in inputs.values()}:
                shutil.rmtree(folder, ignore_errors=True)

    def _check(self, workload: Workload, inputs: Mapping[TensorSpec, Path], scratch: Path) -> Failure | None:
        built, folder = self.compiled.checked, scratch / "checked"
        with self.executor.open(built) as execute:
            ran, outputs = self._execute(execute, built, workload, inputs, folder, NAN_POISON, "random")
        if ran.status is not Status.PASSED:
            self._record(workload, "checked", "random", ran)
            return Failure(ran.status, ran.message)
        if not self.executor.ordered:  # a GPU's sanitizer keeps the outputs to itself
            self._record(workload, "checked", "random", ran)
            return None
        return self._judge(workload, "checked", "random", ran, outputs)

    def _never_launched(self) -> Failure | None:
        """A launch `when` keeps for the problem's own size, which this executor does not run."""
        made = {
            launch.line
            for workload in self.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
            for launch in self.planned.plans[workload.name].launches
        }
        for workload in self.problem.with_role(WorkloadRole.BENCHMARK):
            for launch in self.planned.plans[workload.name].launches:
                if made and launch.line not in made:
                    text = (
                        f"line {launch.line}: {launch.kernel} is launched for workload {workload.name} only, which the "
                        f"{self.executor.name} executor does not run: nothing is known about it here"
                    )
                    return Failure(Status.UNSUPPORTED, text)
        return None

    def _compare(
        self, workload: Workload, inputs: Mapping[TensorSpec, Path], scratch: Path, execute: Execute
    ) -> Failure | None:
        plain = self.compiled.plain
        ran, first = self._execute(execute, plain, workload, inputs, scratch / "first", NAN_POISON, "forward")
        if ran.status is not Status.PASSED:
            self._record(workload, "plain", "forward", ran)
            return Failure(ran.status, ran.message)
        failure = self._judge(workload, "plain", "forward", ran, first)
        if failure:
            return failure
        again, second = self._execute(execute, plain, workload, inputs, scratch / "second", self._other, "reverse")
        if again.status is not Status.PASSED:
            self._record(workload, "plain", "reverse", again)
            return Failure(again.status, again.message)
        if all(first[spec].read_bytes() == second[spec].read_bytes() for spec in first):
            self._record(workload, "plain", "reverse", again)
            return None
        if not self.planned.kernel.numerics.deterministic:
            return self._judge(workload, "plain", "reverse", again, second)
        message = (
            f"workload {workload.name}: the output changes between two runs, with the thread order or with what the "
            "output buffer held before; if that is meant, declare `deterministic = false` under [numerics]"
        )
        self._record(workload, "plain", "reverse", replace(again, status=Status.NONDETERMINISTIC, message=message))
        return Failure(Status.NONDETERMINISTIC, message)

    @property
    def _other(self) -> int:
        return other_poison(self.seed)

    def _judge(
        self, workload: Workload, mode: str, order: str, ran: Executed, outputs: Mapping[TensorSpec, Path]
    ) -> Failure | None:
        poison = self._other if order == "reverse" else NAN_POISON
        comparisons = self.reference.compare(workload, self.seed, outputs, poison=poison)
        wrong = next((c for c in comparisons if c.wrong), None)
        message = f"workload {workload.name}: {wrong.sentence}" if wrong else ""
        status = Status.INCORRECT_NUMERICAL if wrong else Status.PASSED
        self._record(workload, mode, order, replace(ran, status=status, message=message), comparisons)
        return Failure(status, message) if wrong else None

    def _execute(
        self,
        execute: Execute,
        built: Built,
        workload: Workload,
        inputs: Mapping[TensorSpec, Path],
        folder: Path,
        poison: int,
        order: str,
    ) -> tuple[Executed, Mapping[TensorSpec, Path]]:
        folder.mkdir(exist_ok=True)
        outputs = {spec: folder / spec.name for spec in self.reference.signature(workload).outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        plan, seed = self.planned.plans[workload.name], self.seed & 0xFFFF
        ran = execute(Execution(built, plan, inputs, outputs, poison, order, seed, self.run_timeout_s))
        return replace(ran, message=f"workload {workload.name}: {ran.message}" if ran.message else ""), outputs

    def _record(
        self, workload: Workload, mode: str, order: str, ran: Executed, comparisons: tuple[Comparison, ...] = ()
    ) -> None:
        order = order if self.executor.ordered else ""
        self.verdicts.append(
            WorkloadVerdict(
                workload.name, mode, self.seed, ran.status, ran.seconds, order, ran.message, comparisons, ran.findings
            )
        )
