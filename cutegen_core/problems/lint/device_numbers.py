"""Data-sheet rates of devices, for advice if nothing was measured; verdicts never use them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.cuda import nvml
from cutegen_core.machine.device import Device
from cutegen_core.records.performance import Peaks

_SHEETS: Mapping[str, tuple[int, float, Mapping[str, float]]] = {
    #  arch        GB   bytes/s   dense FLOP/s by pipe
    "sm_80": (40, 1.56e12, {"fp32": 19.5e12, "tf32": 156e12, "f16": 312e12, "bf16": 312e12, "fp64": 9.7e12}),
    "sm_86": (24, 0.94e12, {"fp32": 35.6e12, "tf32": 35.6e12, "f16": 71e12, "bf16": 71e12, "fp64": 0.56e12}),
    "sm_89": (24, 1.01e12, {"fp32": 82.6e12, "tf32": 82.6e12, "f16": 165e12, "bf16": 165e12, "fp64": 1.3e12}),
    "sm_90a": (80, 3.35e12, {"fp32": 67e12, "tf32": 494e12, "f16": 989e12, "bf16": 989e12, "fp64": 34e12}),
    "sm_100a": (180, 8.0e12, {"fp32": 80e12, "tf32": 1100e12, "f16": 2250e12, "bf16": 2250e12, "fp64": 40e12}),
    "sm_120a": (32, 1.79e12, {"fp32": 105e12, "tf32": 105e12, "f16": 210e12, "bf16": 210e12, "fp64": 1.6e12}),
}
"""From NVIDIA's data sheets of the products in `device.KNOWN`."""


def memory_bytes(device: Device) -> int:
    """Return the device's memory; the driver reports it if the device is present."""
    if not device.present:
        return _SHEETS[device.arch][0] << 30
    with closing(nvml.NvmlGpu(device.uuid)) as gpu:
        return gpu.memory_total_bytes()


def best_rates(device: Device) -> Peaks:
    """Return the rates measured on this device, or those of its data sheet."""
    measured = peaks.load(device) if device.present else None
    _, bandwidth, flops = _SHEETS[device.arch]
    return measured or Peaks(device.name, bandwidth, bandwidth, flops, "data sheet", 0.0)
