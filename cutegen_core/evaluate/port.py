"""The port `CandidateEvaluator`: what a session, a sweep and an ablation need of an evaluator.

`evaluator.Evaluator` is the real one; a test of the loop may script the trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cutegen_core.evaluate.stages.machine_checks import CompileRefusal
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import StageFailure, Watch
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.timing.measured import MeasuredPoints
from cutegen_core.machine.device import Device
from cutegen_core.records.candidate import Candidate
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import Peaks, Profile
from cutegen_core.records.problem import Problem, Signature, Values, Workload
from cutegen_core.records.trial import Trial


class CandidateEvaluator(Protocol):
    """Takes candidates of one problem through the stages, one at a time."""

    @property
    def problem(self) -> Problem: ...

    @property
    def device(self) -> Device: ...

    @property
    def measures_speed(self) -> bool:
        """Whether its times say anything about speed."""

    @property
    def can_profile(self) -> bool: ...

    @property
    def peaks(self) -> Peaks | None:
        """The measured peaks of the device, None where they were not measured."""

    @property
    def can_race(self) -> bool:
        """Whether kernels can be timed side by side here."""

    @property
    def measured(self) -> MeasuredPoints | None:
        """The times of earlier sweeps, None where none are kept."""

    @property
    def compiles_at_once(self) -> int:
        """How many threads may call `compile_point` at a time to some use."""

    def signature(self, workload: Workload) -> Signature:
        """Return the tensors and numbers of the problem at this workload."""

    def graph(self, workload: Workload) -> Graph:
        """Return the reference's traced graph at this workload."""

    def bears(self) -> tuple[Values, ...]:
        """Return the kinds of values on which the reference can judge a kernel."""

    def evaluate(
        self,
        candidate: Candidate,
        *,
        seed: int,
        watch: Watch | None = None,
        thorough: bool = False,
        best: Candidate | None = None,
        rough: bool = False,
    ) -> Trial:
        """Take the candidate through the stages; see `Evaluator.evaluate`."""

    def plan(self, source: str) -> PlannedKernel | StageFailure:
        """Return the kernel file with its plan for every workload, or why the stage PATCH refuses it."""

    def compile_point(self, planned: PlannedKernel) -> CompiledPoint | CompileRefusal:
        """Compile a point of a sweep; several threads may do that."""

    def race(self, points: Mapping[str, CompiledPoint], turns: int, *, seed: int, watch: Watch) -> Sequence[RaceResult]:
        """Time compiled points side by side, on each benchmark workload; see `timing.racing`."""

    def profile(self, candidate: Candidate, *, seed: int, watch: Watch) -> Profile:
        """Profile a candidate that passed; MachineError where that is impossible."""
