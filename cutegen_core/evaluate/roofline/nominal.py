"""State what a GPU's data sheet promises, for a machine that has not measured it: dense rates, no sparsity.

Sources: NVIDIA's data sheets and white papers of A100 80 GB, GA102, AD102, H100 SXM, H200, B200 and RTX 5090;
products of halves with float32 accumulators. A nominal rate bounds nothing by itself: no time is SUSPECT because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cutegen_core.machine.device import Device
from cutegen_core.records.performance import Peaks


class _Sheet(NamedTuple):
    """Rates in TB/s and TFLOP/s."""

    memory: float
    fp32: float
    tf32: float
    half: float
    fp64: float


_SHEETS: Mapping[str, _Sheet] = {
    "sm_80": _Sheet(2.04, 19.5, 156.0, 312.0, 9.7),
    "sm_86": _Sheet(0.936, 35.6, 35.6, 71.2, 0.556),
    "sm_89": _Sheet(1.01, 82.6, 82.6, 165.0, 1.29),
    "sm_90a": _Sheet(3.35, 66.9, 495.0, 989.0, 33.5),
    "sm_100a": _Sheet(8.0, 80.0, 1125.0, 2250.0, 40.0),
    "sm_120a": _Sheet(1.79, 104.8, 104.8, 209.5, 1.64),
}
_MORE_MEMORY = {"H200": 4.8}


def nominal_peaks(device: Device) -> Peaks:
    """Return the rates of the data sheet of this device's product, or of its architecture's best known one."""
    sheet = _SHEETS[device.arch]
    memory = next((rate for name, rate in _MORE_MEMORY.items() if name in device.name), sheet.memory) * 1e12
    rates = {"fp32": sheet.fp32, "tf32": sheet.tf32, "f16": sheet.half, "bf16": sheet.half, "fp64": sheet.fp64}
    flops = {pipe: rate * 1e12 for pipe, rate in rates.items()}
    return Peaks(device.name, memory, memory, flops, "nominal, of the data sheet", 0.0)
