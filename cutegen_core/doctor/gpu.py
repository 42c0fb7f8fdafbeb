"""Check a machine's GPU: its present load, the process that holds it, and NVIDIA's tools.

The sources are NVML, /proc and package metadata: no CUDA context is created and torch is not imported.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from cutegen_core.doctor.check import CheckState, SystemCheck
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.cuda import lock, nvml
from cutegen_core.execute.nvidia import nvidia_tools, profiling
from cutegen_core.machine.device import Device
from cutegen_core.records.wording import counted

CPU_ONLY = "outputs are compared on the CPU: kernels are tested on the GPU, but not measured against the reference"
_WHEELS = (("13.", "cu130"), ("12.8", "cu128"), ("12.9", "cu128"), ("12.6", "cu126"), ("12.7", "cu126"))
_DAY_S = 86400.0


def check_state(device: Device) -> SystemCheck:
    """Check clocks, temperature, power, memory and other programs that compute on the GPU."""
    gpu = nvml.NvmlGpu(device.uuid)
    try:
        state, others = gpu.read_state(), gpu.count_other_processes()
        used, total, limit = gpu.memory_used_bytes(), gpu.memory_total_bytes(), gpu.power_limit_w()
    finally:
        gpu.close()
    reasons = nvml.Period((state,)).reasons
    detail = (
        f"SM {state.sm_clock_mhz} MHz, memory {state.memory_clock_mhz} MHz, {state.temperature_c} °C, "
        f"{state.power_w:.0f} of {limit:.0f} W, {used / 1e9:.1f} of {total / 1e9:.0f} GB in use"
    )
    if others:
        text = f"{detail}; in use by {counted(others, 'other program')}"
        return SystemCheck(
            "GPU now", CheckState.WARNING, text, "end them (nvidia-smi lists them): they disturb every measurement"
        )
    if state.throttled:
        text = f"{detail}; throttled by {', '.join(reasons)}"
        return SystemCheck("GPU now", CheckState.WARNING, text, "let it cool down; check its fans and power supply")
    return SystemCheck(
        "GPU now", CheckState.OK, f"{detail}; no other programs" + "".join(f"; {reason}" for reason in reasons)
    )


def check_lock(device: Device) -> SystemCheck:
    """Name the process that measures or tests on the GPU."""
    holder = lock.find_holder(device.uuid)
    if holder is None:
        return SystemCheck("GPU lock", CheckState.OK, f"free ({lock.path(device.uuid)})")
    held_s = max(0.0, time.time() - holder.since)
    return SystemCheck(
        "GPU lock", CheckState.OK, f"held for {held_s:.0f} s by process {holder.pid} of {holder.user}: {holder.what}"
    )


def check_torch_cuda(device: Device) -> SystemCheck:
    """Check whether the installed torch can run the reference on this GPU."""
    cuda = _read_torch_cuda()
    wheel = next((name for version, name in _WHEELS if device.driver.startswith(version)), "cu126")
    fix = f"python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{wheel}"
    if not cuda:
        return SystemCheck("PyTorch on the GPU", CheckState.WARNING, f"this build has no CUDA, so {CPU_ONLY}", fix)
    if int(cuda.split(".")[0]) > int(device.driver.split(".")[0]):
        text = f"built for CUDA {cuda}, but the driver supports {device.driver}, so {CPU_ONLY}"
        return SystemCheck("PyTorch on the GPU", CheckState.WARNING, text, f"update the NVIDIA driver, or {fix}")
    return SystemCheck(
        "PyTorch on the GPU", CheckState.OK, f"built for CUDA {cuda}; the driver supports {device.driver}"
    )


def check_profiler() -> SystemCheck:
    """Check for Nsight Compute and whether the driver lets it read the performance counters."""
    ncu = nvidia_tools.find(nvidia_tools.NCU)
    if ncu is None:
        return SystemCheck(
            "Nsight Compute", CheckState.WARNING, "not found: no profiles", nvidia_tools.FIX[nvidia_tools.NCU]
        )
    allowed = profiling.may_read_counters()
    if allowed is False and os.geteuid() != 0:
        text = f"{ncu}, but only administrators can read the driver's counters: no profiles"
        return SystemCheck("Nsight Compute", CheckState.WARNING, text, profiling.PERMISSION)
    who = "all users can read the counters" if allowed else "administrators can read the counters"
    return SystemCheck("Nsight Compute", CheckState.OK, f"{ncu}; {who}")


def check_sanitizer() -> SystemCheck:
    """Check for compute-sanitizer; without it kernels are accepted with the mark NOT_SANITIZED."""
    tool = nvidia_tools.find(nvidia_tools.SANITIZER)
    if tool is None:
        text = "not found: kernels are accepted with the mark NOT_SANITIZED"
        return SystemCheck("compute-sanitizer", CheckState.WARNING, text, nvidia_tools.FIX[nvidia_tools.SANITIZER])
    return SystemCheck("compute-sanitizer", CheckState.OK, str(tool))


def check_peaks(device: Device) -> SystemCheck:
    """Check whether device peaks were measured; roofline bounds and the status SUSPECT need them."""
    found = peaks.load(device)
    if found is None:
        text = "not measured yet: no bounds are shown, and no time is flagged SUSPECT"
        return SystemCheck(
            "Measured peaks", CheckState.WARNING, text, "cutegen doctor --measure (15 s), or the button on Setup"
        )
    rates = ", ".join(f"{pipe} {rate / 1e12:.0f}" for pipe, rate in sorted(found.flops_per_s.items()))
    days = (time.time() - found.measured_at) / _DAY_S
    age = "today" if days < 1.0 else f"{days:.0f} days ago"
    text = (
        f"copy {found.copy_bytes_per_s / 1e12:.2f} TB/s, read {found.read_bytes_per_s / 1e12:.2f} TB/s, "
        f"{rates} TFLOP/s; measured {age}"
    )
    return SystemCheck("Measured peaks", CheckState.OK, text)


def list_checks(device: Device) -> Iterator[tuple[str, Callable[[], SystemCheck]]]:
    """Yield name and function of each check, in the order to repair them."""
    yield "GPU now", lambda: check_state(device)
    yield "GPU lock", lambda: check_lock(device)
    yield "PyTorch on the GPU", lambda: check_torch_cuda(device)
    yield "compute-sanitizer", check_sanitizer
    yield "Nsight Compute", check_profiler
    yield "Measured peaks", lambda: check_peaks(device)


def _read_torch_cuda() -> str:
    """Return the CUDA version the installed torch was built for; "" for a CPU build, or without torch."""
    try:
        file = Path(str(metadata.distribution("torch").locate_file("torch/version.py")))
    except metadata.PackageNotFoundError:
        return ""
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"](\d+\.\d+)", file.read_text(), re.MULTILINE) if file.exists() else None
    return found[1] if found else ""
