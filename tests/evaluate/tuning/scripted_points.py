"""A sweep whose kernels are scripted: plans, points, model, halving and choice are real; it takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from cutegen_core.evaluate.stages.machine_checks import CompileRefusal
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import SilentWatch, StageFailure
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.execute.port import Built
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.performance import BEST, CANDIDATE, Performance, WorkloadPerformance
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Diagnostic, KernelResources, Resources, Status
from tests.session.clockwork import CONDITIONS, NOISE, speedup, timing
from tests.session.scripted import ScriptedEvaluator

SHAPE = (4096, 16384)
KERNEL = """/* cutegen
idea = "several elements a thread"

[let]
n = "x.numel"

[params]
BLOCK = { default = 256, values = [128, 256, 512, 1024, 2048] }
ITEMS = { default = 1, values = [1, 2, 4, 8] }
where = "BLOCK * ITEMS <= 8192"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n, BLOCK * ITEMS)"]
block  = ["BLOCK"]
args   = ["x", "out", "n"]
*/
__global__ void relu(float const* x, float* out, long n) {}
"""
BASE = Candidate(KERNEL, Author.PERSON)
Params = Mapping[str, int | float]


def us_of(params: Params) -> float:
    """Return a landscape with its best at 512 x 4; 128 x 1 takes twice as long."""
    block, items = (128, 256, 512, 1024).index(params["BLOCK"]), (1, 2, 4, 8).index(params["ITEMS"])
    return 40.0 * (1.0 + 0.06 * (block - 2) ** 2 + 0.09 * (items - 2) ** 2)


@dataclass
class ScriptedPoints(ScriptedEvaluator):
    """Plays the evaluator of a sweep on ReLU.

    Attributes:
        us: time of a point.
        verdict: what the stages say of a point.
        registers: of a point; None refuses it at compiling.
        raced: the points of each heat, as they came.
        compiled: the points that were compiled.
    """

    us: Callable[[Params], float] = us_of
    verdict: Callable[[Params], Status] = lambda params: Status.PASSED
    registers: Callable[[Params], int | None] = lambda params: 32
    noise: float = 0.01
    not_timed: str = ""
    can_race: bool = True
    compiles_at_once: int = 2
    raced: list[list[Params]] = field(default_factory=list)
    compiled: list[Params] = field(default_factory=list)
    tested: list[Params] = field(default_factory=list)

    def signature(self, workload):
        out = TensorSpec("out", "float32", SHAPE, TensorRole.OUTPUT)
        return Signature((TensorSpec("x", "float32", SHAPE),), (out,))

    def plan(self, source):
        kernel = parse(source)
        try:
            plans = {w.name: kernel.plan(self.signature(w), self.device) for w in self.problem.workloads}
        except KernelFileError as error:
            return StageFailure(Status.REJECTED, str(error))
        return PlannedKernel(kernel, kernel.defaults(), plans, self.device)

    def compile_point(self, planned):
        self.compiled.append(planned.params)
        registers = self.registers(planned.params)
        if registers is None:
            failure = StageFailure(Status.LAUNCH_ERROR, "too many registers")
            return CompileRefusal(failure, "", (Diagnostic(1, "error", "too many registers", "launch"),))
        kernel = KernelResources("relu", "relu(float const*, float*, long)", registers, 0, 0, 0, 0)
        return CompiledPoint(planned, Resources("sm_90a", (kernel,), ()), Built(Status.PASSED, None, False, 0.0))

    def race(self, points, turns, *, seed, watch):
        self.raced.append([point.planned.params for point in points.values()])
        if self.not_timed:
            return [RaceResult(not_timed=self.not_timed)]
        draw = Random(seed)
        taken = {
            name: tuple(self.us(point.planned.params) * draw.gauss(1.0, self.noise) for _ in range(4 * turns))
            for name, point in points.items()
        }
        return [RaceResult(taken)]

    def evaluate(self, candidate, *, seed, watch=None, thorough=False, best=None, rough=False):
        params = parse(candidate.source).defaults()
        self.tested.append(params)
        said = replace(candidate, source=f"{candidate.source}// status {self.verdict(params)}\n")
        trial = replace(super().evaluate(said, seed=seed, watch=watch), candidate=candidate.key)
        if not trial.passed or not self.can_race or self.not_timed:
            return trial
        own = timing(CANDIDATE, self.us(params))
        others = [timing(BEST, self.us(parse(best.source).defaults()))] if best else []
        words = tuple(speedup(own, other) for other in others)
        performance = WorkloadPerformance("benchmark", (own, *others), words, (), NOISE, CONDITIONS)
        return replace(trial, performance=Performance((performance,)), marks=())


def scripted_points(**options: object) -> ScriptedPoints:
    return ScriptedPoints(library.load("relu"), **options)  # type: ignore[arg-type]


@dataclass
class Lines(SilentWatch):
    """Keeps what is said."""

    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)
