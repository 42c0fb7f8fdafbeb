"""Compute the theoretical occupancy of a launch: the number of blocks that fit on one SM, and the limiting resource.

Rules and granularities follow NVIDIA's occupancy calculator, `cuda_occupancy.h` of the CUDA runtime headers, for
compute capability 8.0 and newer; `test_occupancy` compares with that header. Named barriers and clusters are not
counted.
"""

from __future__ import annotations

from math import prod

from cutegen_core.machine.device import Device
from cutegen_core.records.launch import Launch
from cutegen_core.records.trial import KernelResources, Occupancy

_REGISTER_UNIT = 256
"""A warp gets registers in multiples of this."""
_SUB_PARTITIONS = 4
"""Partitions of one SM; a warp's registers lie in one of them."""
_SMEM_UNIT_BYTES = 128
_SMEM_RESERVED_BYTES = 1024
"""Bytes that the driver uses in every block."""
REGISTERS_PER_BLOCK = 65536
_THREADS_PER_BLOCK = 1024


def compute_occupancy(launch: Launch, resources: KernelResources, device: Device, workload: str) -> Occupancy:
    """Compute the occupancy of one launch. Of several equal limits it names "threads" first: then the SM is full.

    `blocks_per_sm` is 0 if not even one block fits; `limiter` then names the reason.
    """
    warps = -(-prod(launch.block) // device.warp_size)
    smem_bytes = resources.smem_static_bytes + launch.smem_bytes
    fits = {
        "threads": _by_threads(launch, warps, device),
        "registers": _by_registers(resources.registers, warps, device),
        "shared memory": _by_shared_memory(smem_bytes, device),
        "blocks": device.blocks_per_sm,
    }
    limiter = min(fits, key=lambda name: fits[name])
    blocks = fits[limiter]
    return Occupancy(
        workload=workload,
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        smem_bytes=smem_bytes,
        blocks_per_sm=blocks,
        occupancy=blocks * warps * device.warp_size / device.threads_per_sm,
        waves=prod(launch.grid) / (blocks * device.sm_count) if blocks else 0.0,
        limiter=limiter,
    )


def _by_registers(registers: int, warps: int, device: Device) -> int:
    if registers == 0:
        return device.blocks_per_sm
    per_warp = _round_up(registers * device.warp_size, _REGISTER_UNIT)
    if per_warp * _round_up(warps, _SUB_PARTITIONS) > REGISTERS_PER_BLOCK:
        return 0
    warps_per_partition = device.regs_per_sm // _SUB_PARTITIONS // per_warp
    return warps_per_partition * _SUB_PARTITIONS // warps


def _by_shared_memory(smem_bytes: int, device: Device) -> int:
    allocated = _round_up(smem_bytes + _SMEM_RESERVED_BYTES, _SMEM_UNIT_BYTES)
    return device.smem_sm_bytes // allocated if allocated <= device.smem_max + _SMEM_RESERVED_BYTES else 0


def _by_threads(launch: Launch, warps: int, device: Device) -> int:
    return device.threads_per_sm // device.warp_size // warps if prod(launch.block) <= _THREADS_PER_BLOCK else 0


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
