"""Compare a resolved launch with what the device allows: grid, block, cluster and shared memory.

Each message states the value and the limit.
"""

from __future__ import annotations

import re
from math import prod
from typing import Protocol

from cutegen_core.kernel.plan_records import LaunchSpec
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import PORTABLE_CLUSTER, Dim3

MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 16
"""Blocks of a cluster on the devices that have the largest ones."""
MAX_SCRATCH_BYTES = 16 << 30


class DeviceNumbers(Protocol):
    """The properties of the device that a plan may use (`machine.device.Device` has them).

    Attributes:
        arch: such as "sm_90a"; expressions see the number 90.
        smem_max: most shared memory of one block, in bytes.
    """

    @property
    def arch(self) -> str: ...
    @property
    def sm_count(self) -> int: ...
    @property
    def smem_max(self) -> int: ...
    @property
    def warp_size(self) -> int: ...


def check_launch(spec: LaunchSpec, grid: Dim3, block: Dim3, cluster: Dim3, smem: int, device: DeviceNumbers) -> None:
    """Refuse a launch that the device does not take; `smem` is in bytes a block.

    Raises:
        KernelFileError: the first limit that is exceeded, with the line and both numbers.
    """
    _check_grid(grid, spec)
    _check_block(block, spec)
    _check_cluster(cluster, grid, spec, device)
    _check_smem(smem, spec, device)


def _check_grid(grid: Dim3, spec: LaunchSpec) -> None:
    line = spec.grid[0].line
    if min(grid) < 1:
        raise KernelFileError(
            f"{spec.function}: grid {grid} launches nothing although there are elements to write; "
            f"every grid entry must be at least 1 (a launch that does not always apply takes a 'when')", line
        )  # fmt: skip
    for axis, extent, most in zip("xyz", grid, MAX_GRID, strict=True):
        if extent > most:
            raise KernelFileError(f"{spec.function}: grid {axis} is {extent}; the limit is {most}", line)


def _check_block(block: Dim3, spec: LaunchSpec) -> None:
    line = spec.block[0].line
    if min(block) < 1:
        raise KernelFileError(f"{spec.function}: block {block}: every entry must be at least 1", line)
    if prod(block) > MAX_THREADS:
        raise KernelFileError(
            f"{spec.function}: block {block} has {prod(block)} threads; the limit is {MAX_THREADS}", line
        )
    for axis, extent, most in zip("xyz", block, MAX_BLOCK, strict=True):
        if extent > most:
            raise KernelFileError(f"{spec.function}: block {axis} is {extent}; the limit is {most}", line)


def _check_cluster(cluster: Dim3, grid: Dim3, spec: LaunchSpec, device: DeviceNumbers) -> None:
    if cluster == (1, 1, 1):
        return
    line = spec.cluster[0].line
    most = most_cluster(device.arch)
    if min(cluster) < 1 or prod(cluster) > most:
        raise KernelFileError(f"{spec.function}: cluster {cluster} must have 1 to {most} blocks on {device.arch}", line)
    for axis, extent, blocks in zip("xyz", cluster, grid, strict=True):
        if blocks % extent:
            raise KernelFileError(
                f"{spec.function}: grid {axis} ({blocks}) is not a multiple of cluster {axis} ({extent})", line
            )


def most_cluster(arch: str) -> int:
    """Return the most blocks of a cluster: 16 on sm_90 and sm_100 to sm_110, the portable 8 elsewhere."""
    digits = re.search(r"\d+", arch)
    return MAX_CLUSTER if digits and 90 <= int(digits[0]) < 120 else PORTABLE_CLUSTER


def _check_smem(smem: int, spec: LaunchSpec, device: DeviceNumbers) -> None:
    if smem < 0:
        raise KernelFileError(f"{spec.function}: smem is {smem} bytes; it cannot be negative", spec.line)
    if smem > device.smem_max:
        line = spec.smem.line if spec.smem else spec.line
        raise KernelFileError(
            f"{spec.function}: a block asks for {smem} bytes of shared memory ({format_size(smem)}); "
            f"{device.arch} allows {device.smem_max} ({format_size(device.smem_max)})", line
        )  # fmt: skip


def format_size(size: int) -> str:
    """Return a number of bytes in KiB, MiB or GiB."""
    if size < 1 << 20:
        return f"{size / (1 << 10):.1f} KiB"
    return f"{size / (1 << 20):.1f} MiB" if size < 1 << 30 else f"{size / (1 << 30):.1f} GiB"
