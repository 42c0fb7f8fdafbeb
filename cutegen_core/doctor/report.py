"""Report what the workbench finds on this machine, with the exact command that repairs each gap.

1. `run_checks` takes about a second: package versions come from metadata, the GPU's name from a small process, and
   more about the GPU from its driver (`doctor.gpu`). It neither imports nor starts anything heavy.
2. `measure`, on request, uses the GPU for about 15 seconds to measure its peaks and try the profiler.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from cutegen_core.doctor import gpu
from cutegen_core.doctor.check import CheckState, SystemCheck
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.compiler import demangle
from cutegen_core.execute.nvidia import profiling
from cutegen_core.machine import device, toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.machine.workspace import home
from cutegen_core.records.errors import CutegenError, MachineError

_DISK_NEEDED_GB = 3.0
_MEMORY_NEEDED_GB = 4.0


def run_checks() -> tuple[SystemCheck, ...]:
    """Run all checks, in the order to repair them; takes about a second."""
    present = device.detect()
    more = tuple(gpu.list_checks(present)) if present is not None else ()
    return tuple(_run_check(name, check) for name, check in (*_CHECKS, *more))


def measure(progress: Callable[[str], None] = lambda line: None) -> str:
    """Measure the GPU's peaks and try the profiler; return one line about each.

    Raises:
        MachineError: there is no GPU, or it fails. A profiler failure is only reported in its line.
    """
    present = device.detect()
    if present is None:
        raise MachineError("CUDA finds no GPU in this machine, so there is nothing to measure.")
    lines = [peaks.measure(present, progress).how]
    progress("testing Nsight Compute")
    try:
        lines.append(profiling.try_out())
    except MachineError as error:
        lines.append(f"Nsight Compute does not work: {error}")
    return "\n".join(lines)


def _run_check(name: str, check: Callable[[], SystemCheck]) -> SystemCheck:
    try:
        return check()
    except CutegenError as error:
        return SystemCheck(name, CheckState.MISSING, str(error), "see the message")


def _check_python() -> SystemCheck:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return SystemCheck(
            "Python", CheckState.MISSING, found, "use an x86-64 Linux machine, which the emulator and its sandbox need"
        )
    return SystemCheck("Python", CheckState.OK, found)


def _check_toolchain() -> SystemCheck:
    versions = toolchain.installed_versions()
    missing = [wheel for wheel, version in versions.items() if not version]
    detail = ", ".join(f"{wheel} {version or 'missing'}" for wheel, version in versions.items())
    if missing:
        wanted = " ".join(f'"{toolchain.WHEELS[wheel]}"' for wheel in missing)
        return SystemCheck("Compilers and headers", CheckState.MISSING, detail, f"python -m pip install {wanted}")
    toolchain.find_include_dirs(), toolchain.find_nvrtc_builtins(), toolchain.find_nvdisasm()
    untested = [f"{wheel} {versions[wheel]}" for wheel in versions if not toolchain.is_tested(wheel)]
    if untested:
        wanted = " ".join(f'"{toolchain.WHEELS[name.split()[0]]}"' for name in untested)
        detail = f"not tested in this combination: {', '.join(untested)}"
        return SystemCheck("Compilers and headers", CheckState.WARNING, detail, f"python -m pip install {wanted}")
    return SystemCheck("Compilers and headers", CheckState.OK, detail)


def _check_torch() -> SystemCheck:
    version = toolchain.installed_version("torch")
    if not version:
        fix = "python -m pip install torch --index-url https://download.pytorch.org/whl/cpu"
        return SystemCheck("PyTorch", CheckState.MISSING, "not installed: references cannot be run", fix)
    return SystemCheck("PyTorch", CheckState.OK, f"{version}; {_describe_torch_nvrtc()}")


def _describe_torch_nvrtc() -> str:
    """Describe the NVRTC that torch brings. Another version is harmless: the workbench loads its own by path."""
    site = toolchain.find_nvrtc().parents[3]
    names = {d.metadata["Name"].lower(): d.version for d in metadata.distributions(path=[str(site)])}
    other = [f"{n} {v}" for n, v in names.items() if n.startswith("nvidia-cuda-nvrtc-cu")]
    shared = any(re.match(r"nvidia-cuda-nvrtc\b|cuda-toolkit\b", r) for r in metadata.requires("torch") or ())
    own = f"brings {', '.join(other)}" if other else "uses the same NVRTC package" if shared else "brings no NVRTC"
    return f"{own}; the workbench compiles with {toolchain.find_nvrtc()}, in its own process"


def _check_compiler() -> SystemCheck:
    zig = toolchain.installed_version("ziglang")
    clang = shutil.which("clang++")
    also = f"; also installed, used when CUTEGEN_HOST_CXX={clang} is set" if clang else ""
    if not zig:
        fix = f'python -m pip install "{toolchain.WHEELS["ziglang"]}"'
        return SystemCheck("Emulator's compiler", CheckState.MISSING, f"ziglang is not installed{also}", fix)
    return SystemCheck("Emulator's compiler", CheckState.OK, f"ziglang {zig}{also}")


def _check_runtime() -> SystemCheck:
    demangle.demangle("_Z1fv")
    return SystemCheck("C++ runtime", CheckState.OK, "libstdc++.so.6")


def _check_gpu() -> SystemCheck:
    version, found = peaks.driver_version(), device.detect()
    if found is not None:
        detail = f"{found.name}, {found.arch}, {found.sm_count} SMs; driver {version or 'unknown'}"
        return SystemCheck("GPU", CheckState.OK, detail)
    stand_in = device.choose_device()
    without = f"kernels are compiled for {stand_in.arch} ({stand_in.name}) and run on the emulator; nothing is timed"
    if version:
        known = ", ".join(device.KNOWN)
        detail = f"driver {version}, but no GPU of a known architecture ({known}); {without}"
        return SystemCheck("GPU", CheckState.WARNING, detail, "run nvidia-smi to see why the GPU does not respond")
    return SystemCheck(
        "GPU", CheckState.WARNING, f"none; {without}", "for timing, use a machine with an NVIDIA GPU and its driver"
    )


def _check_sandbox() -> SystemCheck:
    level = sandbox.probe_level()
    if level is SandboxLevel.LANDLOCK_SECCOMP:
        return SystemCheck(
            "Sandbox", CheckState.OK, f"{level}: candidates see the toolchain and their own buffers only"
        )
    weaker = {
        SandboxLevel.SECCOMP: "no network and no other processes, but the compilers could read files",
        SandboxLevel.NONE: "only resource limits: run only candidates that you trust",
    }[level]
    fix = "use Linux 5.13 or newer with landlock among the active security modules (boot option lsm=landlock,...)"
    return SystemCheck("Sandbox", CheckState.WARNING, f"{level}: {weaker}", fix)


def _check_disk() -> SystemCheck:
    folder = home()
    free_gb = shutil.disk_usage(folder).free / 1e9
    detail = f"{free_gb:.0f} GB free in {folder}; {_DISK_NEEDED_GB:g} GB are needed"
    if free_gb >= _DISK_NEEDED_GB:
        return SystemCheck("Disk", CheckState.OK, detail)
    return SystemCheck("Disk", CheckState.WARNING, detail, "free some space, or set CUTEGEN_HOME to a larger disk")


def _check_memory() -> SystemCheck:
    available_kb = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    gigabytes = int(available_kb[1]) / 1e6 if available_kb else 0.0
    detail = f"{gigabytes:.1f} GB available; large kernels need {_MEMORY_NEEDED_GB:g} GB to compile"
    if gigabytes >= _MEMORY_NEEDED_GB:
        return SystemCheck("Memory", CheckState.OK, detail)
    return SystemCheck("Memory", CheckState.WARNING, detail, "close other programs, or use a machine with more memory")


_CHECKS: tuple[tuple[str, Callable[[], SystemCheck]], ...] = (
    ("Python", _check_python),
    ("Compilers and headers", _check_toolchain),
    ("Emulator's compiler", _check_compiler),
    ("C++ runtime", _check_runtime),
    ("PyTorch", _check_torch),
    ("GPU", _check_gpu),
    ("Sandbox", _check_sandbox),
    ("Disk", _check_disk),
    ("Memory", _check_memory),
)
