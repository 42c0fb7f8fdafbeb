"""Compile the points of a sweep in the background, several at a time, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType

from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.machine_checks import CompileRefusal
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import StageFailure, Watch, raise_if_stopped
from cutegen_core.evaluate.tuning.points import Point

_LOOK_S = 0.2


class Builds:
    """The compiled points, each there when it is asked for; leaving the context gives up those not yet begun."""

    def __init__(self, evaluator: CandidateEvaluator, points: Sequence[Point], watch: Watch) -> None:
        self._watch = watch
        self._pool = ThreadPoolExecutor(evaluator.compiles_at_once, thread_name_prefix="compile-point")
        evaluator.plan(points[0].source)  # so that the reference's process is not asked by several threads
        self._made = [self._pool.submit(_build, evaluator, point) for point in points]

    def of(self, index: int) -> CompiledPoint | StageFailure:
        """Return a point once it is compiled, or why it was refused.

        Raises:
            StoppedError: the user stopped the sweep.
            MachineError: a compiler failed, not the point.
        """
        made = self._made[index]
        while not wait([made], _LOOK_S).done:
            raise_if_stopped(self._watch)
        return made.result()

    def __enter__(self) -> Builds:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _build(evaluator: CandidateEvaluator, point: Point) -> CompiledPoint | StageFailure:
    planned = evaluator.plan(point.source)
    if isinstance(planned, StageFailure):
        return planned
    built = evaluator.compile_point(planned)
    return built.failure if isinstance(built, CompileRefusal) else built
