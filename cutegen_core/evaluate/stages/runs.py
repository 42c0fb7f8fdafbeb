"""Make the runs of TEST: write a workload's inputs, and execute the candidate on them over poisoned outputs.

A `RunKind` says how a run differs from the others. Runs that will be asked for are begun ahead (`ahead`), those of the
next workload, too; only two or three workloads have files at a time. A GPU makes one run after the other, while inputs
are drawn and outputs are judged.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cutegen_core.evaluate.stages.ahead import RunsAhead
from cutegen_core.evaluate.stages.tested_builds import TestedBuilds
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.port import Built, Execute, Executed, Execution, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import TensorSpec, Workload
from cutegen_core.records.trial import Status

NAN_POISON = 0xFF
"""Fill byte of unwritten outputs: every float is NaN."""

LOWER_EDGE, EXACT, UPPER_EDGE = -1, 0, 1
"""Ends of the documented errors of approximate instructions; an executor with real ones ignores them."""


def other_poison(seed: int) -> int:
    """Return another fill byte, which a kernel cannot predict: every float is a large finite number."""
    return 0x41 + seed % 0x1E


@dataclass(frozen=True)
class RunKind:
    """How a run is made.

    Attributes:
        folder: of its outputs, in that of its workload.
        mode: "plain", or "checked" for the build that detects memory errors and races.
        order: of the threads, where the executor has orders: "forward", "reverse" or "random".
        edge: at which end of their documented errors approximate instructions err.
        finite_poison: whether the outputs hold `other_poison` before the run, not NaN.
    """

    folder: str
    mode: str = "plain"
    order: str = "forward"
    edge: int = LOWER_EDGE
    finite_poison: bool = False

    def poison(self, seed: int) -> int:
        """Return the byte that fills the outputs before the run."""
        return other_poison(seed) if self.finite_poison else NAN_POISON


CHECKED = RunKind("checked", "checked", "random", UPPER_EDGE)
FIRST = RunKind("first")
SECOND = RunKind("second", order="reverse", finite_poison=True)
UPPER = RunKind("upper", edge=UPPER_EDGE)
ONCE = RunKind("once", edge=EXACT)
"""A run that is made once: over a long row errors at one edge would add up as they do on no device."""

TURNED = RunKind("turned", order="reverse", edge=EXACT, finite_poison=True)
"""The same the other way round: at such sizes, or on such values, no run may have had this order."""

MEETING = RunKind("meeting", "checked", edge=EXACT)
"""The same, instrumented: threads that add to one place by plain writes are right in one order."""


class OneRun(NamedTuple):
    """A run to make once; `derived` values keep the structure of the file's own."""

    workload: Workload
    plan: LaunchPlan
    derived: bool
    kind: RunKind = ONCE


class Ran(NamedTuple):
    """How a run ended, and its outputs."""

    executed: Executed
    outputs: Mapping[TensorSpec, Path]


@dataclass(frozen=True)
class PreparedWorkload:
    """A workload whose inputs are written.

    Attributes:
        folder: of its outputs, one folder a run.
        kinds: the runs that every kernel makes on it.
        derived: whether its values keep the structure of the file's own.
    """

    workload: Workload
    plan: LaunchPlan
    inputs: Mapping[TensorSpec, Path]
    folder: Path
    kinds: tuple[RunKind, ...]
    derived: bool

    def folder_of(self, kind: RunKind) -> Path:
        """Return where a run's outputs are."""
        return self.folder / kind.folder

    def remove(self) -> None:
        """Remove its inputs and outputs."""
        for folder in {self.folder, *(path.parent for path in self.inputs.values())}:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class CandidateRuns:
    """Make the runs of one candidate.

    Attributes:
        execute: runs the plain build; the checked one is opened for each of its runs.
        threads: how many runs may go on at a time.
    """

    reference: Reference
    executor: Executor
    builds: TestedBuilds
    seed: int
    timeout_s: float
    scratch: Path
    execute: Execute
    threads: int
    ahead: RunsAhead[Ran]

    def prepare(
        self, name: str, workload: Workload, plan: LaunchPlan, kinds: tuple[RunKind, ...], *, derived: bool = False
    ) -> PreparedWorkload:
        """Write a workload's inputs, and begin these runs on it; `name` is that of its folder."""
        inputs = self.reference.write_inputs(workload, self.seed, derived=derived)
        made = PreparedWorkload(workload, plan, inputs, self.scratch / name, kinds, derived)
        made.folder.mkdir()
        for kind in kinds:
            self.ahead.begin(made.folder_of(kind), partial(self._make, made, kind))
        return made

    def result(self, made: PreparedWorkload, kind: RunKind) -> Ran:
        """Return the run that was begun, or make it now."""
        return self.ahead.result(made.folder_of(kind), partial(self._make, made, kind))

    def test_in_turn(
        self,
        prepared: Iterator[PreparedWorkload],
        test: Callable[[PreparedWorkload], StageFailure | None],
        at_a_time: int,
    ) -> StageFailure | None:
        """Test each until one fails; `at_a_time` workloads are prepared."""
        begun: deque[PreparedWorkload] = deque()
        try:
            while True:
                begun.extend(islice(prepared, at_a_time - len(begun)))
                failure = test(begun[0]) if begun else None
                if failure or not begun:
                    return failure
                begun.popleft().remove()
        finally:
            self.ahead.drop()
            for left in begun:
                left.remove()

    def _make(self, made: PreparedWorkload, kind: RunKind) -> Ran:
        if kind.mode == "plain":
            return self._execute(self.execute, self.builds.plain, made, kind)
        with self.executor.open(self.builds.checked) as execute:
            return self._execute(execute, self.builds.checked, made, kind)

    def _execute(self, execute: Execute, built: Built, made: PreparedWorkload, kind: RunKind) -> Ran:
        folder, workload = made.folder_of(kind), made.workload
        folder.mkdir(exist_ok=True)
        outputs = {spec: folder / spec.name for spec in self.reference.signature(workload).outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        poison, seed = kind.poison(self.seed), self.seed & 0xFFFF
        ran = execute(
            Execution(built, made.plan, made.inputs, outputs, poison, kind.order, seed, self.timeout_s, kind.edge,
                      self.ahead.stop)
        )  # fmt: skip
        return Ran(replace(ran, message=f"workload {workload.name}: {ran.message}" if ran.message else ""), outputs)


@contextmanager
def open_runs(
    reference: Reference, executor: Executor, builds: TestedBuilds, seed: int, timeout_s: float
) -> Iterator[CandidateRuns]:
    """Open the candidate's plain build, and a folder for what its runs write."""
    scratch = Path(tempfile.mkdtemp(prefix="trial-", dir=reference.scratch))
    one_by_one = not executor.has_thread_orders
    threads = 1 if one_by_one else len(os.sched_getaffinity(0))
    # A hung kernel takes its time limit: on a GPU it must not hang again in a run that nobody will ask for.
    ahead: RunsAhead[Ran] = RunsAhead(threads, lambda ran: one_by_one and ran.executed.status is not Status.PASSED)
    try:
        with executor.open(builds.plain) as execute:
            yield CandidateRuns(reference, executor, builds, seed, timeout_s, scratch, execute, threads, ahead)
    finally:
        ahead.close()
        shutil.rmtree(scratch, ignore_errors=True)
