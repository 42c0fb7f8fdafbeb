"""Compute lower bounds on a problem's time on a device, from counted work (`work`) and measured peaks, and apply them.

* graph (for display): a perfectly fused kernel that does all work as traced, at the rates measured on real values.
* compulsory (for suspicion): work that no algorithm avoids, at the highest rates measured under any condition.

Compulsory FLOPs of fp32 products are divided by the fastest way that keeps fp32's precision, which is not the fp32
pipe: three TF32 or float16 products, or six bfloat16 ones, of operands split in two or three (Ootomo and Yokota,
"Recovering single precision accuracy from Tensor Cores", IJHPCA 2022). If the problem allows TF32, a single product on
float16's tensor pipe also counts: its significand is as long.

The roofline: Williams, Waterman, Patterson, CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.evaluate.roofline.work import PLAIN, STATED, Work, compulsory_work, graph_work, stated
from cutegen_core.records.graph import Graph, InputFacts
from cutegen_core.records.performance import (
    BEST,
    CANDIDATE,
    COMPULSORY,
    EXISTING,
    GRAPH,
    Bound,
    Peaks,
    WorkloadPerformance,
)
from cutegen_core.records.problem import Signature
from cutegen_core.records.wording import called

MARGIN = 0.95
"""A time below this share of the compulsory one is SUSPECT; clocks and peaks are accurate to a few per cent."""
CONFIRM_BEYOND = 5.0
"""Speedup over the fastest baseline beyond which a person must review the kernel."""

_PIPES = {PLAIN: "fp32", "float32": "fp32", "float64": "fp64", "float16": "f16", "bfloat16": "bf16"}
_WIDEST_FIRST = ("float64", "float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn")
_SPLITS = {"tf32": 3, "f16": 3, "bf16": 6}


def compute_bounds(
    source: str, graph: Graph, signature: Signature, peaks: Peaks, l2_bytes: int,
    allow: tuple[str, ...] = (), facts: Mapping[str, InputFacts] | None = None,
) -> tuple[Bound, ...]:  # fmt: skip
    """Return the graph's bound and the compulsory one.

    A reference that could not be traced has neither, unless its file states COMPULSORY.

    Args:
        source: the reference's text with the workload's sizes in place.
        allow: the problem's relaxations; "tf32" changes the pipe of fp32 products.
        facts: known properties of the inputs' values, by name.

    Raises:
        ProblemError: COMPULSORY cannot be evaluated.
    """
    own = stated(source)
    if not graph.nodes:
        return () if own is None else (compulsory_bound(_apply_statement(own, Work(0), signature), peaks, allow),)
    least = compulsory_work(graph, signature, l2_bytes, facts or {})
    if own is not None:
        least = _apply_statement(own, least, signature)
    return graph_bound(graph_work(graph, signature), peaks, allow), compulsory_bound(least, peaks, allow)


def _apply_statement(own: Work, counted: Work, signature: Signature) -> Work:
    """Replace counted work by the file's statement; stated FLOPs get the widest floating dtype of the inputs."""
    dtypes = [t.dtype for t in signature.inputs if "float" in t.dtype] or ["float32"]
    widest = min(dtypes, key=_WIDEST_FIRST.index)
    flops = {widest: own.flops[STATED]} if own.flops else counted.flops
    return Work(own.moved_bytes if own.moved_bytes >= 0 else counted.moved_bytes, flops)


def graph_bound(work: Work, peaks: Peaks, allow: tuple[str, ...] = ()) -> Bound:
    """Return the bound at the rates that the device reaches on real values; it names the pipe that takes longest."""
    flops: dict[str, int] = {}
    for kind, count in work.flops.items():
        pipe = "tf32" if kind == "float32" and "tf32" in allow else _PIPES.get(kind, kind)
        flops[pipe] = flops.get(pipe, 0) + count
    times = {pipe: 1e6 * n / peaks.flops_per_s[pipe] for pipe, n in flops.items() if pipe in peaks.flops_per_s}
    return _bound(GRAPH, work.moved_bytes, 1e6 * work.moved_bytes / peaks.copy_bytes_per_s, flops, times)


def compulsory_bound(work: Work, peaks: Peaks, allow: tuple[str, ...] = ()) -> Bound:
    """Return the bound at the highest rates: the faster of copy and read, the fastest pipe with enough precision."""
    memory_us = 1e6 * work.moved_bytes / max(peaks.copy_bytes_per_s, peaks.read_bytes_per_s)
    flops, rates = dict[str, int](), dict[str, float]()
    for kind, count in work.flops.items():
        rate, pipe = _ceiling(kind, peaks, allow)
        flops[pipe], rates[pipe] = flops.get(pipe, 0) + count, rate
    times = {pipe: 1e6 * flops[pipe] / rate for pipe, rate in rates.items() if rate}
    return _bound(COMPULSORY, work.moved_bytes, memory_us, flops, times)


def _bound(kind: str, moved: int, memory_us: float, flops: Mapping[str, int], times: Mapping[str, float]) -> Bound:
    pipe = max(times, key=lambda name: times[name], default="")
    return Bound(kind, moved, flops.get(pipe, 0), pipe, memory_us, times.get(pipe, 0.0))


def _ceiling(dtype: str, peaks: Peaks, allow: tuple[str, ...]) -> tuple[float, str]:
    """Return the FLOP/s that no kernel exceeds with operands of that dtype, 0.0 if unknown for the device, and whose
    they are: "bf16", "3 x tf32"."""
    most, own = peaks.ceilings or peaks.flops_per_s, _PIPES.get(dtype, dtype)
    if dtype in ("float16", "bfloat16"):
        return max(most.get("f16", 0.0), most.get("bf16", 0.0)), own
    if dtype != "float32":
        return most.get(own, 0.0), own
    whole = {"tf32": 1, "f16": 1} if "tf32" in allow else {}
    ways = {pipe: whole.get(pipe, split) for pipe, split in _SPLITS.items()}
    split = [(most.get(pipe, 0.0) / n, f"{n} x {pipe}" if n > 1 else pipe) for pipe, n in ways.items()]
    return max((most.get(own, 0.0), own), *split, key=lambda rated: rated[0])


def reason_to_suspect(performance: WorkloadPerformance) -> str:
    """Return why a measured time cannot be true, or "" if it can."""
    bound = performance.bound(COMPULSORY)
    if bound is None or bound.us <= 0.0:
        return ""
    measured = performance.candidate.median_us
    if measured >= MARGIN * bound.us:
        return ""
    what = (
        f"{bound.moved_bytes / 1e6:.1f} MB must be moved" if bound.by == "memory"
        else f"{bound.flops / 1e9:.1f} GFLOP must be computed"
    )  # fmt: skip
    return (
        f"{measured:.2f} us is less than the {bound.us:.2f} us that the device needs at its best ({what}). Either work "
        "was skipped; or the problem needs less than was counted: then state COMPULSORY in its file; or the peaks were "
        "measured on a busy GPU: cutegen doctor --measure."
    )


def reason_to_confirm(performance: WorkloadPerformance) -> str:
    """Return why a person must review a speedup before it counts, or "" if that is not necessary.

    An existing kernel, which was tested, shows that its time can be reached. It may be slow, so alone it shows no more.
    """
    baselines = [t for t in performance.timings if t.contender not in (CANDIDATE, BEST)]
    if all(t.contender == EXISTING for t in baselines):
        return ""
    strongest = min(baselines, key=lambda t: t.median_us)
    ratio = strongest.median_us / max(performance.candidate.median_us, 1e-9)
    if ratio <= CONFIRM_BEYOND:
        return ""
    return (
        f"{ratio:.1f} times as fast as the fastest baseline "
        f"({called(strongest.contender)}, {strongest.median_us:.2f} us); beyond {CONFIRM_BEYOND:g} times a person "
        "confirms."
    )
