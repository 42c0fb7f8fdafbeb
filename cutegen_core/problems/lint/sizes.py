"""Doubts about a problem's sizes: shapes that tests never see, benchmarks that are too small or too large to time."""

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
from cutegen_core.problems.lint.rules import Finding
from cutegen_core.problems.read import TESTED, sizes_of, whole_numbers
from cutegen_core.records import operations as ops
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.operations import Flow
from cutegen_core.records.problem import Problem, Signature, Workload, WorkloadRole

LAUNCH_US = 10.0
"""Shorter kernels are timed by graph replay, and are mostly latency: a launch costs 8 to 9 us."""

_UNCOUNTED = (Flow.COMPOSITE, Flow.UNKNOWN)
_TILE = 8
_VARIES_FROM = 16
_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)


def missing_benchmark(problem: Problem) -> Iterator[Finding]:
    """A problem whose own sizes could not be used as one."""
    if problem.workloads and not problem.with_role(WorkloadRole.BENCHMARK):
        yield Finding("no-benchmark", "no workload has the role benchmark.")


def test_shapes(problem: Problem) -> Iterator[Finding]:
    """Whether tests see more than one shape, and one that is no multiple of a tile."""
    varying = _varying(problem)
    tested = [{**varying, **w.sizes} for w in problem.with_role(*TESTED)]
    if not varying or not tested:
        return
    if all(sizes == tested[0] for sizes in tested):
        yield Finding("one-shape", f"all tests have {_listed({n: tested[0][n] for n in varying})}.")
    even = [name for name in varying if all(_is_even(sizes[name]) for sizes in tested)]
    if even:
        yield Finding("only-tiles", f"{', '.join(even)}: a multiple of {_TILE} in every test.")


def awkward(reference: Reference) -> Workload | None:
    """A test whose sizes are odd, as far as the reference takes them; None when it takes none."""
    typical, varying = reference.typical(), _varying(reference.problem)
    sizes = {**varying, **typical.sizes}
    odd = {name: _odd(sizes[name]) for name in varying}
    for names in (tuple(odd), *((name,) for name in odd)):
        changed = {name: odd[name] for name in names if odd[name] != sizes[name]}
        made = Workload("awkward", WorkloadRole.EMULATOR, {**typical.sizes, **changed})
        if changed and _signature(reference, made):
            return made
    return None


def benchmark(problem: Problem, reference: Reference, device: Device) -> Iterator[Finding]:
    """Benchmarks that end before they have begun, or that the device cannot hold."""
    room = device_numbers.memory_bytes(device) // 2
    for workload in problem.with_role(WorkloadRole.BENCHMARK):
        size = reference.signature(workload).nbytes
        if size > room:
            what = f"workload {workload.name} has {_gib(size)} of tensors; {device.name} has room for {_gib(room)}."
            yield Finding("too-large", what, _resized(reference, workload, device, room, shrink=True))
        elif 0 < (least := _least_us(reference, workload, device)) < LAUNCH_US:
            what = (
                f"workload {workload.name} moves {size / (1 << 20):.2g} MiB, which {device.name} does in "
                f"{least:.2g} µs at best."
            )
            yield Finding("small-benchmark", what, _resized(reference, workload, device, room, shrink=False))


def _least_us(reference: Reference, workload: Workload, device: Device) -> float:
    """Time of a perfect kernel; 0.0 where its work cannot be counted."""
    graph = reference.graph(workload)
    if not graph.nodes or any(ops.traits(node).flow in _UNCOUNTED for node in graph.nodes):
        return 0.0
    work = graph_work(graph, reference.signature(workload))
    return graph_bound(work, device_numbers.best(device), reference.problem.allow).us


def _resized(
    reference: Reference, workload: Workload, device: Device, room: int, *, shrink: bool
) -> tuple[Workload, ...]:
    """All workloads, with one size of this one changed as little as is enough; empty when no size does it."""
    own = {**_varying(reference.problem), **workload.sizes}
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


def _varying(problem: Problem) -> Mapping[str, SizeValue]:
    """The file's own values of what a person would call its sizes; small numbers are strides, heads and the like."""
    slots = problem_source.size_slots(problem_source.parse(problem.source, problem.origin))
    values = {name: slots[name].value for name in sizes_of(problem)}
    return {n: value for n, value in values.items() if max(whole_numbers(value), default=0) >= _VARIES_FROM}


def _is_even(value: SizeValue) -> bool:
    """A multiple of the tile in every large extent."""
    return all(v % _TILE == 0 for v in whole_numbers(value))


def _odd(value: SizeValue) -> SizeValue:
    """One less than a multiple of the tile becomes no multiple of anything a kernel likes."""
    if isinstance(value, tuple):
        return tuple(v - 1 if v >= _TILE and v % _TILE == 0 else v for v in value)
    return value - 1 if type(value) is int and value >= _TILE and value % _TILE == 0 else value


def _signature(reference: Reference, workload: Workload) -> Signature | None:
    """None when the reference does not take these sizes."""
    try:
        return reference.signature(workload)
    except ProblemError:
        return None


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _listed(sizes: Mapping[str, SizeValue]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
