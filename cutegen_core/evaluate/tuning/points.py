"""List the points of a sweep: the choices of a kernel's parameters that can run, the most promising first.

1. `where` leaves choices out; of more than `MOST_LOOKED_AT` some are drawn evenly.
2. The launch plan of each benchmark workload is resolved: too many threads, too much shared memory, an invalid tensor
   map and every other error of the plan leave a choice out before anything is compiled.
3. The rest is ordered by the static model, and the first are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload, cost
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import KernelResources

MOST_LOOKED_AT = 1024


@dataclass(frozen=True)
class Point:
    """One choice of parameters.

    Attributes:
        source: the kernel file with the choice as its defaults.
        cost: by the static model, before it is compiled.
    """

    params: Mapping[str, Number]
    source: str
    workloads: tuple[LaunchedWorkload, ...]
    cost: float


@dataclass(frozen=True)
class Points:
    """The points of a sweep.

    Attributes:
        kept: the defaults first, then by cost.
        pruned: how many choices cannot run, and why the first of them.
        left_out: how many were not looked at, or are not among the first.
    """

    kept: tuple[Point, ...]
    pruned: int
    pruned_why: str
    left_out: int


def find_points(kernel: KernelFile, evaluator: CandidateEvaluator, most: int) -> Points:
    """Return the points; a kernel whose defaults cannot run has them as its first point all the same."""
    device, default = evaluator.device, kernel.defaults()
    own, others = Point(default, kernel.text, (), 0.0), list[Point]()
    refused: list[str] = []
    for params in kernel.combinations(device, MOST_LOOKED_AT):
        workloads = _resolve(kernel, params, evaluator)
        if isinstance(workloads, str):
            refused.append(workloads)
        elif params == default:
            own = Point(params, kernel.text, workloads, cost(workloads, (), device))
        else:
            others.append(Point(params, "", workloads, cost(workloads, (), device)))
    kept = sorted(others, key=lambda point: point.cost)[: most - 1]
    unseen = max(0, kernel.count_choices() - MOST_LOOKED_AT) + len(others) - len(kept)
    written = (replace(point, source=with_params(kernel, point.params)) for point in kept)
    return Points((own, *written), len(refused), refused[0] if refused else "", unseen)


def compiled_cost(point: Point, kernels: tuple[KernelResources, ...], evaluator: CandidateEvaluator) -> float:
    """Return the cost with the registers and spills that the compiler named."""
    return cost(point.workloads, kernels, evaluator.device)


def with_params(kernel: KernelFile, params: Mapping[str, Number]) -> str:
    """Return the kernel file with these values as defaults."""
    text = kernel.text
    for name, value in params.items():
        if kernel.defaults()[name] != value:
            text = parse(text).with_param(name, value)
    return text


def _resolve(
    kernel: KernelFile, params: Mapping[str, Number], evaluator: CandidateEvaluator
) -> tuple[LaunchedWorkload, ...] | str:
    """Return the launches of every benchmark workload, or why there are none."""
    problem = evaluator.problem
    workloads = problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[-1:]
    try:
        signatures = [evaluator.signature(workload) for workload in workloads]
        return tuple(
            LaunchedWorkload(signature, kernel.plan(signature, evaluator.device, params, workload.name))
            for workload, signature in zip(workloads, signatures, strict=True)
        )
    except KernelFileError as error:
        return str(error)
