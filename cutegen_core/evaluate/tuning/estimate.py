"""Estimate what a kernel takes where nothing is timed: a guess from counted things, to rank kernels; never a time.

    estimate   = the larger of memory and arithmetic; of several workloads the geometric mean
    memory     = cost of its launches (`static_model`) / the peak of memory
    arithmetic = FLOPs of the graph / the peak of their pipe x slots x what its launch wastes (tail, occupancy, spills)

    slots      of work bound by arithmetic, of the kernel with most FFMAs: how many issue slots, or cycles of the
               load/store unit, it spends for each slot of FFMA; at least 1. Four warps issue a cycle; a cycle loads
               128 bytes, of shared memory less by as much as its bank conflicts cost, where the emulator counted them.
               Counts are static: the mix of the whole kernel stands for the mix of its inner loop
    pipe       products of float32 on tensor cores take three passes of TF32; halves without MMA take the fp32 pipe

It does not know how often a loop reads what it has read, what caches keep, or whether neighbouring threads read
neighbouring addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cutegen_core.evaluate.timing.statistics import geometric_mean
from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload, cost, waste, width_of
from cutegen_core.machine.device import Device
from cutegen_core.records.performance import Bound, KernelEstimate, Peaks
from cutegen_core.records.trial import Resources

_WARPS_A_CYCLE = 4
_TF32_PASSES = 3
_SPEEDY = ("f16", "bf16", "tf32")
_MMA_IN_FFMA = 64
"""An MMA does at least so many times an FFMA's work."""


class WorkloadOnDevice(NamedTuple):
    """A benchmark workload as a kernel launches it, with the bound of its graph, None where it could not be traced."""

    launched: LaunchedWorkload
    bound: Bound | None


def estimate(
    workloads: Sequence[WorkloadOnDevice], resources: Resources, device: Device, peaks: Peaks
) -> KernelEstimate:
    """Return the estimate of a compiled kernel."""
    found = [_of_workload(workload, resources, device, peaks) for workload in workloads]
    means = [geometric_mean([max(each, 1e-9) for each in column]) for column in zip(*found, strict=True)]
    us, memory, arithmetic, bound, least = means
    counted = all(workload.bound for workload in workloads)
    return KernelEstimate(us, memory, arithmetic, *((bound, least) if counted else (0.0, 0.0)))


def _of_workload(
    workload: WorkloadOnDevice, resources: Resources, device: Device, peaks: Peaks
) -> tuple[float, float, float, float, float]:
    memory = 1e6 * cost([workload.launched], resources.kernels, device) / peaks.copy_bytes_per_s
    arithmetic = _arithmetic_us(workload, resources, device, peaks)
    bound = workload.bound
    bounds = (bound.us, _least_us(bound, peaks)) if bound else (0.0, 0.0)
    return max(memory, arithmetic), memory, arithmetic, *bounds


def _least_us(bound: Bound, peaks: Peaks) -> float:
    """Return the bound, of arithmetic on the pipe that takes least time for it."""
    fastest = min(1.0, _pipe(bound.pipe, {"MMA": 1}, peaks))
    return max(bound.memory_us, bound.compute_us * fastest)


def _arithmetic_us(workload: WorkloadOnDevice, resources: Resources, device: Device, peaks: Peaks) -> float:
    bound = workload.bound
    by_name = {kernel.kernel: kernel for kernel in resources.kernels}
    launches = [launch for launch in workload.launched.plan.launches if launch.kernel in by_name]
    if bound is None or not bound.flops or not launches:
        return 0.0
    launch = max(launches, key=lambda each: _math(by_name[each.kernel].instruction_mix))
    kernel = by_name[launch.kernel]
    conflicts = next((each.conflicts for each in resources.shared if each.kernel == kernel.kernel), 1.0)
    slots = _slots(kernel.instruction_mix, conflicts) if bound.by == "compute" else 1.0
    return bound.compute_us * _pipe(bound.pipe, kernel.instruction_mix, peaks) * slots * waste(launch, kernel, device)


def _math(mix: Mapping[str, int]) -> int:
    return mix.get("FFMA", 0) + _MMA_IN_FFMA * mix.get("MMA", 0)


def _pipe(pipe: str, mix: Mapping[str, int], peaks: Peaks) -> float:
    """Return how many times the pipe's time the work takes on the pipe that the kernel uses."""
    rates, tensor = peaks.flops_per_s, bool(mix.get("MMA"))
    if pipe == "fp32" and tensor and "tf32" in rates:
        return _TF32_PASSES * rates["fp32"] / rates["tf32"]
    if pipe in _SPEEDY and not tensor and "fp32" in rates:
        return rates[pipe] / rates["fp32"]
    return 1.0


def _slots(mix: Mapping[str, int], conflicts: float) -> float:
    """Return the slots, or cycles of the load/store unit, spent for each slot of FFMA; each access to shared memory
    takes as many times its cycles as its bank conflicts say."""
    fused = mix.get("FFMA", 0)
    if mix.get("MMA") or not fused:
        return 1.0
    of_global = sum(count * width_of(kind) / 32 for kind, count in mix.items() if kind.startswith("global load"))
    of_shared = sum(count * width_of(kind) / 32 for kind, count in mix.items() if kind.startswith("shared load"))
    loads = of_global + conflicts * of_shared
    return max(1.0, sum(mix.values()) / fused, _WARPS_A_CYCLE * loads / fused)
