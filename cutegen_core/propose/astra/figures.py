"""Figures per shape: how long the base takes at each timed workload, how near that is to the floor, what bounds it.

The floor is the roofline's time of work that no algorithm can avoid. Without a GPU nothing is timed; then the bytes of
the tensors are all that is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cutegen_core.propose.port import BenchmarkShape, ProposalRequest
from cutegen_core.records.performance import COMPULSORY, EXISTING, WorkloadPerformance
from cutegen_core.records.problem import list_sizes


class ShapeFigure(NamedTuple):
    """One timed workload.

    Attributes:
        moved_bytes: of the tensors, each read or written once.
        us: the base's median, None where nothing was timed.
        floor_us, bound_by: of the roofline, None and "" without measured peaks.
        over_existing: the existing kernel's time / the base's, None where they were not timed in turns.
    """

    workload: str
    sizes: str
    moved_bytes: int
    us: float | None = None
    floor_us: float | None = None
    bound_by: str = ""
    over_existing: float | None = None

    @property
    def share(self) -> float | None:
        """Share of the floor's speed that is reached, 0 to 1."""
        return self.floor_us / self.us if self.us and self.floor_us else None


def figures(request: ProposalRequest) -> tuple[ShapeFigure, ...]:
    """Return the figures of the base at every timed workload."""
    trial = request.base_trial
    performance = trial.performance if trial and trial.passed else None
    timed = {workload.workload: workload for workload in performance.workloads} if performance else {}
    return tuple(_figure(shape, timed.get(shape.workload.name)) for shape in request.shapes)


def describe(found: tuple[ShapeFigure, ...]) -> str:
    """Write one line a shape."""
    return "\n".join(f"- {figure.workload}{figure.sizes}: {', '.join(_words(figure))}" for figure in found)


def _figure(shape: BenchmarkShape, timed: WorkloadPerformance | None) -> ShapeFigure:
    sizes = list_sizes(shape.workload.sizes)
    plain = ShapeFigure(shape.workload.name, f" ({sizes})" if sizes else "", shape.signature.nbytes)
    if timed is None:
        return plain
    bound, beside = timed.bound(COMPULSORY), timed.speedup(EXISTING)
    return plain._replace(
        us=timed.candidate.median_us,
        floor_us=bound.us if bound else None,
        bound_by=bound.by if bound else "",
        over_existing=beside.ratio if beside else None,
    )


def _words(figure: ShapeFigure) -> Iterator[str]:
    yield f"tensors of {figure.moved_bytes:,} bytes"
    if figure.us is None:
        yield "not measured"
        return
    yield f"{figure.us:.2f} us"
    if figure.share is not None:
        yield f"{figure.share:.0%} of the floor's speed ({figure.floor_us:.2f} us, bound by {figure.bound_by})"
    if figure.over_existing is not None:
        yield f"{figure.over_existing:.2f}x the existing kernel's speed"
