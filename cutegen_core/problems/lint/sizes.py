"""Check a problem's sizes: shapes that tests never cover, benchmarks too small or too large to time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cutegen_core.evaluate.roofline.bounds import graph_bound
from cutegen_core.evaluate.roofline.work import graph_work
from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.problems.lint import device_numbers
from cutegen_core.problems.lint.rules import LintFinding
from cutegen_core.problems.read import TESTED, sizes_of, whole_numbers
from cutegen_core.records import operations as ops
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.operations import Flow
from cutegen_core.records.problem import Problem, Signature, Workload, WorkloadRole, list_sizes

LAUNCH_US = 10.0
"""A shorter kernel is timed by graph replay and consists mostly of latency: a launch costs 8 to 9 us."""

_UNCOUNTED = (Flow.COMPOSITE, Flow.UNKNOWN)
_TILE = 8
_VARIES_FROM = 16
_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)


def check_benchmark_exists(problem: Problem) -> Iterator[LintFinding]:
    """Yield a finding if no workload is a benchmark."""
    if problem.workloads and not problem.with_role(WorkloadRole.BENCHMARK):
        yield LintFinding("no-benchmark", "no workload has the role benchmark.")


def check_test_shapes(problem: Problem) -> Iterator[LintFinding]:
    """Yield a finding if tests cover only one shape, or only multiples of a tile."""
    varying = _large_sizes(problem)
    tested = [{**varying, **w.sizes} for w in problem.with_role(*TESTED)]
    if not varying or not tested:
        return
    if all(sizes == tested[0] for sizes in tested):
        yield LintFinding("one-shape", f"all tests have {list_sizes({n: tested[0][n] for n in varying})}.")
    even = [name for name in varying if all(_is_even(sizes[name]) for sizes in tested)]
    if even:
        yield LintFinding("only-tiles", f"{', '.join(even)}: a multiple of {_TILE} in every test.")


def find_awkward_test(reference: Reference) -> Workload | None:
    """Return a test with odd sizes that the reference accepts, or None if it accepts none."""
    typical, varying = reference.typical_workload(), _large_sizes(reference.problem)
    sizes = {**varying, **typical.sizes}
    odd = {name: _make_odd(sizes[name]) for name in varying}
    for names in (tuple(odd), *((name,) for name in odd)):
        changed = {name: odd[name] for name in names if odd[name] != sizes[name]}
        made = Workload("awkward", WorkloadRole.EMULATOR, {**typical.sizes, **changed})
        if changed and _signature(reference, made):
            return made
    return None


def check_benchmarks(problem: Problem, reference: Reference, device: Device) -> Iterator[LintFinding]:
    """Yield findings about benchmarks that are mostly launch latency, or that the device cannot hold."""
    room = device_numbers.memory_bytes(device) // 2
    for workload in problem.with_role(WorkloadRole.BENCHMARK):
        size = reference.signature(workload).nbytes
        if size > room:
            what = f"workload {workload.name} has {_gib(size)} of tensors; {device.name} has room for {_gib(room)}."
            yield LintFinding("too-large", what, _resize(reference, workload, device, room, shrink=True))
        elif 0 < (least := _least_us(reference, workload, device)) < LAUNCH_US:
            what = (
                f"workload {workload.name} moves {size / (1 << 20):.2g} MiB, which {device.name} does in "
                f"{least:.2g} µs at best."
            )
            yield LintFinding("small-benchmark", what, _resize(reference, workload, device, room, shrink=False))


def _least_us(reference: Reference, workload: Workload, device: Device) -> float:
    """Return the time of a perfect kernel; 0.0 if its work cannot be counted."""
    graph = reference.graph(workload)
    if not graph.nodes or any(ops.traits(node).flow in _UNCOUNTED for node in graph.nodes):
        return 0.0
    work = graph_work(graph, reference.signature(workload))
    return graph_bound(work, device_numbers.best_rates(device), reference.problem.allow).us


def _resize(
    reference: Reference, workload: Workload, device: Device, room: int, *, shrink: bool
) -> tuple[Workload, ...]:
    """Return all workloads with one size of this one changed as little as necessary; empty if no size suffices."""
    own = {**_large_sizes(reference.problem), **workload.sizes}
    numbers = {name: value for name, value in own.items() if type(value) is int}
    for factor in _FACTORS:
        for name, value in numbers.items():
            made = replace(workload, sizes={**workload.sizes, name: value // factor if shrink else value * factor})
            signature = _signature(reference, made) if value >= factor or not shrink else None
            if signature is None or signature.nbytes > room:
                continue
            if shrink or _least_us(reference, made, device) >= LAUNCH_US:
                return tuple(made if w == workload else w for w in reference.problem.workloads)
    return ()


def _large_sizes(problem: Problem) -> Mapping[str, SizeValue]:
    """Return the file's own values of its large sizes; small numbers are strides, heads and the like."""
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    values = {name: slots[name].value for name in sizes_of(problem)}
    return {n: value for n, value in values.items() if max(whole_numbers(value), default=0) >= _VARIES_FROM}


def _is_even(value: SizeValue) -> bool:
    """Return whether every extent is a multiple of the tile."""
    return all(v % _TILE == 0 for v in whole_numbers(value))


def _make_odd(value: SizeValue) -> SizeValue:
    """Subtract one from multiples of the tile, so that the size is no multiple of what a kernel prefers."""
    if isinstance(value, tuple):
        return tuple(v - 1 if v >= _TILE and v % _TILE == 0 else v for v in value)
    return value - 1 if type(value) is int and value >= _TILE and value % _TILE == 0 else value


def _signature(reference: Reference, workload: Workload) -> Signature | None:
    """Return the signature, or None if the reference does not accept these sizes."""
    try:
        return reference.signature(workload)
    except ProblemError:
        return None


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
