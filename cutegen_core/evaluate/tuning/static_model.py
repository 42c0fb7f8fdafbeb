"""Order points by a model of their launches, where nothing was timed: a guess from counted things, never a time.

    cost of a point  = the sum of its launches' costs; of several workloads, their geometric mean
    cost of a launch = bytes of the tensors it takes x tail x latency x occupancy x spills x requests

    tail       waves rounded up / waves; of at most one wave, blocks of the fullest SM / blocks of an average SM:
               SMs idle while the last blocks run
    latency    `NEEDED_BYTES` / bytes in flight of an SM, at least 1: so much must be in flight to use the bandwidth
               (Little's law)
    occupancy  1 + what is missing to `ENOUGH_OCCUPANCY`: arithmetic has latency, too
    once       a launch marked `once` costs its hundredth (`ONCE_CALLS`)
    requests   1 + 2 % for each further request that 16 bytes take, of the widest accesses: they cost issue slots
    spills     1 + spilled bytes of a thread / `SPILLED_BYTES`: each spilled register is a store and a load

Bytes in flight: of each resident thread its share of the launch's bytes, at most `THREAD_BYTES`, and the dynamic shared
memory of each resident block, which stages copies. Before a point is compiled its registers and spills count as none,
and its accesses as 16 bytes wide. The model knows nothing of reuse in caches, of bank conflicts, or of what a loop
repeats. `estimate` adds arithmetic, for kernels that differ in more than their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cutegen_core.evaluate.timing.statistics import geometric_mean
from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.machine.device import Device
from cutegen_core.records.launch import ONCE_CALLS, Launch, LaunchPlan, TensorArgument, TensorMapArgument
from cutegen_core.records.problem import ITEMSIZE, Signature
from cutegen_core.records.trial import KernelResources, Occupancy

NEEDED_BYTES = 32 << 10
"""Of an SM: 4.8 TB/s x 0.9 µs / 132 SMs on an H200."""

THREAD_BYTES = 64
"""What a thread has outstanding at most: four 128-bit loads."""

SPILLED_BYTES = 256
ENOUGH_OCCUPANCY = 0.25
_IMPOSSIBLE = 1e6
_WIDEST_BITS = 128
_REQUEST = 0.02
_UNKNOWN = KernelResources("", "", 0, 0, 0, 0, 0)


class LaunchedWorkload(NamedTuple):
    """One benchmark workload as a point launches it."""

    signature: Signature
    plan: LaunchPlan


def cost(workloads: Sequence[LaunchedWorkload], kernels: Sequence[KernelResources], device: Device) -> float:
    """Return the cost of a point; only ratios of costs of one kernel file mean anything.

    Args:
        kernels: what the compiler said, empty before the point is compiled.
    """
    by_name = {kernel.kernel: kernel for kernel in kernels}
    return geometric_mean([_workload_cost(workload, by_name, device) for workload in workloads])


def _workload_cost(workload: LaunchedWorkload, kernels: Mapping[str, KernelResources], device: Device) -> float:
    sizes = {spec.name: spec.nbytes for spec in workload.signature.tensors}
    sizes |= {s.name: math.prod(s.shape) * ITEMSIZE[s.dtype] for s in workload.plan.scratch}
    sizes |= {each.name: sizes[each.tensor] for each in workload.plan.tensor_maps}
    found = [
        _launch_cost(launch, _bytes_of(launch, sizes), kernels.get(launch.kernel, _UNKNOWN), device)
        / (ONCE_CALLS if launch.once else 1)
        for launch in workload.plan.launches
    ]
    return max(1.0, math.fsum(found))


def _bytes_of(launch: Launch, sizes: Mapping[str, int]) -> int:
    tensors = {a.name for a in launch.args if isinstance(a, TensorArgument | TensorMapArgument)}
    return sum(sizes.get(name, 0) for name in tensors)


def _launch_cost(launch: Launch, nbytes: int, kernel: KernelResources, device: Device) -> float:
    found = compute_occupancy(launch, kernel, device, "")
    if not found.blocks_per_sm:
        return _IMPOSSIBLE * max(1, nbytes)
    latency = max(1.0, NEEDED_BYTES / max(1.0, _bytes_in_flight(launch, nbytes, found, device)))
    return max(1, nbytes) * latency * _requests(kernel.instruction_mix) * waste(launch, kernel, device)


def waste(launch: Launch, kernel: KernelResources, device: Device) -> float:
    """Return how many times longer a launch takes for its tail, its occupancy and its spills; at least 1."""
    found = compute_occupancy(launch, kernel, device, "")
    if not found.blocks_per_sm:
        return _IMPOSSIBLE
    spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
    occupied = 1.0 + max(0.0, ENOUGH_OCCUPANCY - found.occupancy)
    return _tail(found, device) * occupied * (1.0 + spilled / SPILLED_BYTES)


def width_of(kind: str) -> int:
    """Return the bits of an access: "global load 128-bit" -> 128; 0 for anything else."""
    width = kind.rpartition(" ")[2].removesuffix("-bit")
    return int(width) if width.isdecimal() else 0


def _requests(mix: Mapping[str, int]) -> float:
    widths = [width_of(kind) for kind in mix if kind.startswith("global load")]
    widest = _WIDEST_BITS if not widths or "TMA" in mix or "async copy" in mix else max(widths)
    return 1.0 + _REQUEST * (_WIDEST_BITS / widest - 1)


def _tail(found: Occupancy, device: Device) -> float:
    blocks = math.prod(found.grid)
    if found.waves > 1.0:
        return math.ceil(found.waves) / found.waves
    return math.ceil(blocks / device.sm_count) / (blocks / device.sm_count)


def _bytes_in_flight(launch: Launch, nbytes: int, found: Occupancy, device: Device) -> float:
    threads, blocks = math.prod(launch.block), math.prod(launch.grid)
    resident = min(found.blocks_per_sm, math.ceil(blocks / device.sm_count))
    return resident * (threads * min(THREAD_BYTES, nbytes / (threads * blocks)) + launch.smem_bytes)
