"""Measure the best rates of this machine's GPU, once per device and driver, and keep them in the workspace.

`load` reads an earlier measurement and costs nothing; `measure` occupies the whole device for about ten seconds
(`judge.gpu.peaks` describes the measurements). Without peaks there are no bounds, and no trial is SUSPECT; `cutegen
doctor` and the Setup page report it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutegen_core.execute.cuda import lock, nvml
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.machine.device import Device
from cutegen_core.machine.workspace import cache_dir
from cutegen_core.records import as_json
from cutegen_core.records.errors import MachineError, StoreError
from cutegen_core.records.performance import Peaks

_DRIVER = Path("/proc/driver/nvidia/version")
_TIMEOUT_S = 180.0
_LOCK_S = 600.0


def load(device: Device) -> Peaks | None:
    """Return the peaks of this device under its present driver, or None if they were not measured yet."""
    try:
        return as_json.load(Peaks, _path(device).read_text())
    except (FileNotFoundError, StoreError):
        return None  # a record of an older version does not load: measure again


def measure(device: Device, progress: Callable[[str], None] = lambda line: None) -> Peaks:
    """Measure the device's peaks and keep them.

    Raises:
        MachineError: the device is not in this machine, is busy for ten minutes, or fails.
    """
    if not device.uuid:
        raise MachineError(f"{device.name} is not in this machine, so its peaks cannot be measured here.")
    progress(f"waiting for {device.name}")
    gpu = nvml.NvmlGpu(device.uuid)
    with lock.hold(device.uuid, "measuring the device's peaks", _LOCK_S), nvml.Monitor(gpu) as monitor:
        progress(f"measuring what {device.name} can do")
        begun = time.monotonic()
        answer = _run_measurement(device.uuid)
        seen, others = monitor.since(begun), gpu.count_other_processes()
    low, high = seen.sm_clock_mhz
    slowed = f"; slowed down by {', '.join(seen.reasons)}" if seen.reasons else ""
    company = f"; {others} other programs held the GPU" if others else ""
    conditions = (
        f"SM clock {low}-{high} MHz, up to {seen.temperature_c[1]} °C and {seen.power_w[1]:.0f} W{slowed}{company}"
    )
    peaks = Peaks(
        device=answer["device"],
        copy_bytes_per_s=answer["copy_bytes_per_s"],
        read_bytes_per_s=answer["read_bytes_per_s"],
        flops_per_s=answer["flops_per_s"],
        how="\n".join([*answer["notes"], conditions]),
        measured_at=time.time(),
        ceilings=answer["ceilings"],
    )
    _path(device).write_text(as_json.dump(peaks))
    return peaks


def driver_version() -> str:
    """Return the version of the kernel module, "580.159.04", or "" without one."""
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", _DRIVER.read_text()) if _DRIVER.exists() else None
    return found[0] if found else ""


def _path(device: Device) -> Path:
    return cache_dir("peaks") / f"{device.uuid or device.arch}-{driver_version() or device.driver}.json"


def _run_measurement(uuid: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="cutegen-peaks-") as home:
        environment = child_environment(Path(home)) | {"CUDA_VISIBLE_DEVICES": uuid}
        command = [sys.executable, "-m", "cutegen_core.judge.gpu.peaks"]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise MachineError(f"the peaks of {uuid} could not be measured within {_TIMEOUT_S:g} s.") from None
    if done.returncode != 0:
        raise MachineError(f"the peaks of {uuid} could not be measured: {(done.stderr or done.stdout).strip()[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
