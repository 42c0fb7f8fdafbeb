"""Choose what runs the kernels for a device unless a person says so."""

from __future__ import annotations

from cutegen_core.machine.device import Device
from cutegen_core.records.trial import ExecutorKind


def default_executor(device: Device) -> ExecutorKind:
    """Return what kernels for this device run on: the device if it is present, else the emulator."""
    return ExecutorKind.GPU if device.present else ExecutorKind.CPU
