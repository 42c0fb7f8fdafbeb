"""Choose the device a candidate is compiled for: the present GPU, or a known GPU whose limits are used instead.

A short-lived child process queries the driver: a CUDA context occupies GPU memory, and a broken driver must not crash
the workbench. Source of the limits in the table: CUDA C++ Programming Guide, "Compute Capabilities"; SM counts and L2
sizes are those of the named product.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cutegen_core.records.errors import UsageError

DEFAULT_ARCH = "sm_90a"


@dataclass(frozen=True)
class Device:
    """The limits of one GPU.

    Attributes:
        arch: the architecture kernels are compiled for, "sm_90a".
        smem_max: most shared memory one block can request (opt-in), in bytes.
        smem_sm_bytes: shared memory of one SM.
        regs_per_sm: 32-bit registers of one SM.
        present: whether the GPU is in this machine; if not, the numbers come from the table.
        uuid: "GPU-...", as nvidia-smi names it; "" unless present.
        driver: newest CUDA version its driver supports, "13.0"; "" unless present.
    """

    name: str
    arch: str
    sm_count: int
    smem_max: int
    smem_sm_bytes: int
    regs_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    l2_bytes: int
    warp_size: int = 32
    present: bool = False
    uuid: str = ""
    driver: str = ""


_KB, _MB = 1 << 10, 1 << 20
_KNOWN = (
    #      name        arch       SMs  block     SM        registers threads blocks L2
    Device("A100", "sm_80", 108, 163 * _KB, 164 * _KB, 65536, 2048, 32, 40 * _MB),
    Device("RTX 3090", "sm_86", 82, 99 * _KB, 100 * _KB, 65536, 1536, 16, 6 * _MB),
    Device("RTX 4090", "sm_89", 128, 99 * _KB, 100 * _KB, 65536, 1536, 24, 72 * _MB),
    Device("H100 SXM", "sm_90a", 132, 227 * _KB, 228 * _KB, 65536, 2048, 32, 50 * _MB),
    Device("B200", "sm_100a", 148, 227 * _KB, 228 * _KB, 65536, 2048, 32, 126 * _MB),
    Device("RTX 5090", "sm_120a", 170, 99 * _KB, 100 * _KB, 65536, 1536, 24, 96 * _MB),
)
KNOWN: Mapping[str, Device] = {device.arch: device for device in _KNOWN}


def choose_device(arch: str | None = None) -> Device:
    """Return the device to compile for: the present GPU unless `arch` names another; without a GPU, the H100 (sm_90a).

    Raises:
        UsageError: `arch` is unknown.
    """
    if arch is not None and arch not in KNOWN:
        raise UsageError(f"{arch} is not a known architecture; choose one of {', '.join(KNOWN)}.")
    found = detect()
    if found is not None and arch in (None, found.arch):
        return found
    return KNOWN[arch or DEFAULT_ARCH]


@functools.cache
def detect() -> Device | None:
    """Return the first GPU of this machine, or None without a driver or a GPU of a known architecture."""
    return next(iter(detect_all()), None)


@functools.cache
def detect_all() -> tuple[Device, ...]:
    """Return the GPUs of this machine that are visible to it, in order, up to the first of an unknown architecture."""
    asked = subprocess.run(
        [sys.executable, "-m", "cutegen_core.machine.device"], capture_output=True, text=True, timeout=60, check=False
    )
    if asked.returncode != 0:
        return ()
    return tuple(Device(**json.loads(line)) for line in asked.stdout.splitlines() if line.startswith("{"))


# -- the child process; attribute numbers: https://docs.nvidia.com/cuda/cuda-driver-api/, cuDeviceGetAttribute --------

_ATTRIBUTES = {
    "sm_count": 16, "smem_max": 97, "smem_sm_bytes": 81, "regs_per_sm": 82, "threads_per_sm": 39,
    "blocks_per_sm": 106, "l2_bytes": 38, "warp_size": 10,
}  # fmt: skip
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


def _query_driver(ordinal: int) -> Device | None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), ordinal) or cuda.cuDeviceGetName(name, 256, device):
        return None

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    capability = f"sm_{attribute(_CAPABILITY_MAJOR)}{attribute(_CAPABILITY_MINOR)}"
    arch = next((known for known in KNOWN if known.rstrip("a") == capability), None)
    if arch is None:
        return None
    numbers = {field: attribute(number) for field, number in _ATTRIBUTES.items()}
    identity, version = (ctypes.c_ubyte * 16)(), ctypes.c_int()
    cuda.cuDeviceGetUuid_v2(identity, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return Device(
        name=name.value.decode(), arch=arch, present=True, uuid=f"GPU-{uuid.UUID(bytes=bytes(identity))}",
        driver=f"{version.value // 1000}.{version.value % 1000 // 10}", **numbers,
    )  # fmt: skip


if __name__ == "__main__":
    for answer in iter(map(_query_driver, itertools.count()).__next__, None):
        print(json.dumps(asdict(answer)))
