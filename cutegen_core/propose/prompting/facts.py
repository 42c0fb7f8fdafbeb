"""State the facts that decide what a kernel can reach: its work, the device's peaks, and the bound they give.

Peaks are measured where that was done on this machine, else nominal; the text says which.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.evaluate.roofline.bounds import compute_bounds
from cutegen_core.evaluate.roofline.nominal import nominal_peaks
from cutegen_core.machine import toolchain
from cutegen_core.propose.port import BenchmarkShape, ProposalRequest
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.performance import COMPULSORY, Bound, Peaks
from cutegen_core.records.problem import Signature, TensorRole
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import data_size, micros

_FIXED = (TensorRole.PARAMETER, TensorRole.BUFFER)


def peaks_of(request: ProposalRequest) -> Peaks:
    """Return the measured peaks of the device, or the nominal ones of its product."""
    return request.peaks or nominal_peaks(request.device)


def bounds_of(request: ProposalRequest) -> tuple[Bound, ...]:
    """Return the bounds of the benchmark shape; none for a reference that could not be traced."""
    try:
        return compute_bounds(
            request.problem.source, request.graph, request.signature, peaks_of(request), request.device.l2_bytes,
            request.problem.allow,
        )  # fmt: skip
    except ProblemError:
        return ()  # the problem's own COMPULSORY cannot be read; the trial says so


def work(request: ProposalRequest) -> str:
    """Write work, peaks and bound of the benchmark shape, one line each."""
    return "\n".join((*(_bound(bound) for bound in bounds_of(request)), _peaks(request)))


def _bound(bound: Bound) -> str:
    flops = f", {bound.flops / 1e9:.3g} GFLOP on {bound.pipe} {micros(bound.compute_us)}" if bound.flops else ""
    what = "No algorithm takes less than" if bound.kind == COMPULSORY else "A perfectly fused kernel takes"
    return (
        f"{what} {micros(bound.us)}, bound by {bound.by}: "
        f"{data_size(bound.moved_bytes)} to move {micros(bound.memory_us)}{flops}."
    )


def _peaks(request: ProposalRequest) -> str:
    peaks = peaks_of(request)
    how = "measured on this GPU" if request.peaks else "nominal, of the data sheet"
    rates = ", ".join(f"{pipe} {rate / 1e12:.4g}" for pipe, rate in peaks.flops_per_s.items())
    return f"Peaks, {how}: memory {peaks.copy_bytes_per_s / 1e12:.3g} TB/s (read + written); TFLOP/s: {rates}."


def shapes(request: ProposalRequest) -> dict[str, str]:
    """Write the shapes of every workload's own tensors, by its name: "x [5, 1021] -> out [5, 1021]"."""
    return {shape.workload.name: _shape(shape.signature) for shape in _workloads(request)}


def _workloads(request: ProposalRequest) -> Iterator[BenchmarkShape]:
    yield from request.untimed
    yield from request.shapes


def _shape(signature: Signature) -> str:
    given = ", ".join(f"{t.name} {list(t.shape)}" for t in signature.inputs if t.role not in _FIXED)
    made = ", ".join(f"{t.name} {list(t.shape)}" for t in signature.outputs)
    return f"{given} -> {made}"


def executor(request: ProposalRequest) -> str:
    """Write what runs the kernels here, and what that cannot do."""
    version = toolchain.installed_version("nvidia-cutlass")
    compiled = f"Compiled by NVRTC for {request.device.arch} with CUTLASS{f' {version}' if version else ''}"
    if request.executor is ExecutorKind.GPU:
        return f"{compiled}, run and timed on the GPU."
    return (
        f"{compiled}, and run by a CPU emulator: nothing is timed, so a kernel that passes is ranked by an estimate. "
        "It knows cp.async, ldmatrix, mma, mbarriers, TMA, wgmma (bf16, f16, tf32), cooperative groups and clusters "
        "with their shared memory; multicast, mbarriers of another block, products of 8-bit floats, tcgen05 and blocks "
        "that wait for one another are UNSUPPORTED. It runs "
        "the small workloads only, each run at most 10 s of processor time: every launch of the plan must apply to one "
        "of them (`when`), and every path of the code that the benchmark takes should occur there."
    )
