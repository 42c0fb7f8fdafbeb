"""Find the launches of a plan that the target's driver would refuse, without a GPU.

The plan's own limits (grid, block, dynamic shared memory) are checked when it is resolved; here are those that only the
compiled kernel shows: its registers, its static shared memory and local memory, and what it demands of its launches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from cutegen_core.execute.compiler.launch_bounds import LaunchBounds
from cutegen_core.execute.compiler.occupancy import REGISTERS_PER_BLOCK, compute_occupancy
from cutegen_core.machine.device import Device
from cutegen_core.records.launch import Launch, LaunchPlan
from cutegen_core.records.trial import Diagnostic, KernelResources

_MOST_LOCAL_BYTES = 512 << 10
_FIRST_WITH_CLUSTERS = 90
_ONE = (1, 1, 1)


def find_launch_errors(
    plan: LaunchPlan, kernels: Mapping[str, KernelResources], bounds: Mapping[str, LaunchBounds], device: Device
) -> tuple[Diagnostic, ...]:
    """Return an error for each launch that cannot be made on `device`.

    Args:
        kernels, bounds: by the plan's name of the kernel.
    """
    return tuple(
        Diagnostic(launch.line, "error", f"{launch.kernel}: {message}", "launch")
        for launch in plan.launches
        for message in _find_broken(launch, kernels[launch.kernel], bounds[launch.kernel], device)
    )


def _find_broken(launch: Launch, kernel: KernelResources, bounds: LaunchBounds, device: Device) -> Iterator[str]:
    yield from _check_bounds(launch, bounds)
    yield from _check_cluster(launch, bounds, device)
    broken = [*_check_memory(launch, kernel, device), *_check_registers(launch, kernel, device)]
    yield from broken
    if launch.cooperative and not broken:
        yield from _check_cooperative(launch, kernel, device)


def _check_bounds(launch: Launch, bounds: LaunchBounds) -> Iterator[str]:
    threads = prod(launch.block)
    if 0 < bounds.max_threads < threads:
        yield (
            f"a block of {threads} threads {launch.block}, but the kernel is compiled for at most {bounds.max_threads} "
            f"(__launch_bounds__): write __launch_bounds__({threads}), or launch smaller blocks"
        )
    if bounds.block and bounds.block != launch.block:
        yield (
            f"a block {launch.block}, but the kernel is compiled for blocks {bounds.block} only (__block_size__): "
            "launch that shape, or change the attribute"
        )


def _check_cluster(launch: Launch, bounds: LaunchBounds, device: Device) -> Iterator[str]:
    if bounds.cluster and bounds.cluster != launch.cluster:
        wanted = ", ".join(map(str, _trim(bounds.cluster)))
        yield (
            f"compiled for clusters {bounds.cluster} (__cluster_dims__), but the plan gives {launch.cluster}: "
            f"write cluster = [{wanted}] in its [[launch]]"
        )
    elif 0 < bounds.max_cluster < prod(launch.cluster):
        yield (
            f"a cluster of {prod(launch.cluster)} blocks, but the kernel is compiled for at most {bounds.max_cluster} "
            "(the third number of __launch_bounds__): raise that number, or launch smaller clusters"
        )
    if launch.cluster != _ONE and _capability(device) < _FIRST_WITH_CLUSTERS:
        yield f"{device.arch} has no clusters, they begin with sm_90: remove cluster, or give the launch a 'when'"


def _check_memory(launch: Launch, kernel: KernelResources, device: Device) -> Iterator[str]:
    static, dynamic = kernel.smem_static_bytes, launch.smem_bytes
    if static + dynamic > device.smem_max:
        yield (
            f"a block needs {static + dynamic} bytes of shared memory ({static} static, {dynamic} by the plan's smem); "
            f"{device.arch} allows {device.smem_max}: use smaller tiles, or fewer stages"
        )
    if kernel.stack_bytes > _MOST_LOCAL_BYTES:
        yield (
            f"a thread needs {kernel.stack_bytes} bytes of local memory; the limit is {_MOST_LOCAL_BYTES}: keep large "
            "arrays in [[scratch]]"
        )


def _check_registers(launch: Launch, kernel: KernelResources, device: Device) -> Iterator[str]:
    fits = compute_occupancy(launch, kernel, device, "")
    if fits.blocks_per_sm or fits.limiter != "registers":
        return
    threads = prod(launch.block)
    yield (
        f"{kernel.registers} registers in each of {threads} threads are more than the {REGISTERS_PER_BLOCK} that a "
        f"block can have: write __launch_bounds__({threads}), so that the compiler uses fewer, or launch smaller blocks"
    )


def _check_cooperative(launch: Launch, kernel: KernelResources, device: Device) -> Iterator[str]:
    fits = compute_occupancy(launch, kernel, device, "")
    most = fits.blocks_per_sm * device.sm_count
    if prod(launch.grid) > most:
        yield (
            f"a cooperative launch of {prod(launch.grid)} blocks; all of them must be on the device at once, and "
            f"{device.name} has room for {most} ({fits.blocks_per_sm} on each of {device.sm_count} multiprocessors, "
            f"limited by {fits.limiter}): launch at most that many, and let each do more"
        )


def _trim(shape: tuple[int, int, int]) -> tuple[int, ...]:
    kept = 3 if shape[2] > 1 else 2 if shape[1] > 1 else 1
    return shape[:kept]


def _capability(device: Device) -> int:
    digits = re.search(r"\d+", device.arch)
    return int(digits[0]) if digits else 0
