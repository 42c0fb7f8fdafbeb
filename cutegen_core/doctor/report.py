"""What this machine has of what the workbench needs, and the exact command that repairs each gap.

Nothing heavy is imported or started: package versions come from metadata, the GPU from a small process, and where
there is one, more from its driver (`doctor_gpu`). `measure` uses the GPU for a quarter of a minute, when asked for.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from cutegen_core.doctor import gpu
from cutegen_core.doctor.check import Check, State
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.compiler import demangle
from cutegen_core.execute.nvidia import profiling
from cutegen_core.machine import device, toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.workspace import home
from cutegen_core.records.errors import CutegenError, MachineError

_DISK_NEEDED_GB = 3.0
_MEMORY_NEEDED_GB = 4.0


def doctor() -> tuple[Check, ...]:
    """All checks, in the order a person should repair them; takes about a second."""
    present = device.detect()
    more = tuple(gpu.checks(present)) if present is not None else ()
    return tuple(_guarded(name, check) for name, check in (*_CHECKS, *more))


def measure(progress: Callable[[str], None] = lambda line: None) -> str:
    """Measures what the GPU can do at best, tries the profiler out, and says what came of it, one line each.

    Raises:
        MachineError: there is no GPU, or it fails; a profiler that fails is one of the lines.
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


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except CutegenError as error:
        return Check(name, State.MISSING, str(error), "see the message")


def _python() -> Check:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return Check(
            "Python", State.MISSING, found, "use an x86-64 Linux machine, which the emulator and its sandbox need"
        )
    return Check("Python", State.OK, found)


def _toolchain() -> Check:
    versions = toolchain.versions()
    missing = [wheel for wheel, version in versions.items() if not version]
    detail = ", ".join(f"{wheel} {version or 'missing'}" for wheel, version in versions.items())
    if missing:
        wanted = " ".join(f'"{toolchain.WHEELS[wheel]}"' for wheel in missing)
        return Check("Compilers and headers", State.MISSING, detail, f"python -m pip install {wanted}")
    toolchain.include_dirs(), toolchain.nvrtc_builtins(), toolchain.nvdisasm()
    untested = [f"{wheel} {versions[wheel]}" for wheel in versions if not toolchain.is_tested(wheel)]
    if untested:
        wanted = " ".join(f'"{toolchain.WHEELS[name.split()[0]]}"' for name in untested)
        detail = f"not tested in this combination: {', '.join(untested)}"
        return Check("Compilers and headers", State.WARNING, detail, f"python -m pip install {wanted}")
    return Check("Compilers and headers", State.OK, detail)


def _torch() -> Check:
    version = toolchain.installed_version("torch")
    if not version:
        fix = "python -m pip install torch --index-url https://download.pytorch.org/whl/cpu"
        return Check("PyTorch", State.MISSING, "not installed: references cannot be run", fix)
    return Check("PyTorch", State.OK, f"{version}; {_torch_nvrtc()}")


def _torch_nvrtc() -> str:
    """Torch may bring another NVRTC; that is harmless, since the workbench loads its own by path."""
    site = toolchain.nvrtc_library().parents[3]
    names = {d.metadata["Name"].lower(): d.version for d in metadata.distributions(path=[str(site)])}
    other = [f"{n} {v}" for n, v in names.items() if n.startswith("nvidia-cuda-nvrtc-cu")]
    shared = any(re.match(r"nvidia-cuda-nvrtc\b|cuda-toolkit\b", r) for r in metadata.requires("torch") or ())
    own = f"brings {', '.join(other)}" if other else "uses the same NVRTC package" if shared else "brings no NVRTC"
    return f"{own}; the workbench compiles with {toolchain.nvrtc_library()}, in its own process"


def _compiler() -> Check:
    zig = toolchain.installed_version("ziglang")
    clang = shutil.which("clang++")
    also = f"; also installed, used when CUTEGEN_HOST_CXX={clang} is set" if clang else ""
    if not zig:
        fix = f'python -m pip install "{toolchain.WHEELS["ziglang"]}"'
        return Check("Emulator's compiler", State.MISSING, f"ziglang is not installed{also}", fix)
    return Check("Emulator's compiler", State.OK, f"ziglang {zig}{also}")


def _runtime() -> Check:
    demangle.demangle("_Z1fv")
    return Check("C++ runtime", State.OK, "libstdc++.so.6")


def _gpu() -> Check:
    version, found = peaks.driver_version(), device.detect()
    if found is not None:
        detail = f"{found.name}, {found.arch}, {found.sm_count} SMs; driver {version or 'unknown'}"
        return Check("GPU", State.OK, detail)
    stand_in = device.target()
    without = f"kernels are compiled for {stand_in.arch} ({stand_in.name}) and run on the emulator; nothing is timed"
    if version:
        known = ", ".join(device.KNOWN)
        detail = f"driver {version}, but no GPU of a known architecture ({known}); {without}"
        return Check("GPU", State.WARNING, detail, "run nvidia-smi to see why the GPU does not respond")
    return Check(
        "GPU", State.WARNING, f"none; {without}", "for timing, use a machine with an NVIDIA GPU and its driver"
    )


def _sandbox() -> Check:
    level = sandbox.available()
    if level is sandbox.Level.LANDLOCK_SECCOMP:
        return Check("Sandbox", State.OK, f"{level}: candidates see the toolchain and their own buffers only")
    weaker = {
        sandbox.Level.SECCOMP: "no network and no other processes, but the compilers could read files",
        sandbox.Level.NONE: "only resource limits: run only candidates that you trust",
    }[level]
    fix = "use Linux 5.13 or newer with landlock among the active security modules (boot option lsm=landlock,...)"
    return Check("Sandbox", State.WARNING, f"{level}: {weaker}", fix)


def _disk() -> Check:
    folder = home()
    free_gb = shutil.disk_usage(folder).free / 1e9
    detail = f"{free_gb:.0f} GB free in {folder}; {_DISK_NEEDED_GB:g} GB are needed"
    if free_gb >= _DISK_NEEDED_GB:
        return Check("Disk", State.OK, detail)
    return Check("Disk", State.WARNING, detail, "free some space, or set CUTEGEN_HOME to a larger disk")


def _memory() -> Check:
    available_kb = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    gigabytes = int(available_kb[1]) / 1e6 if available_kb else 0.0
    detail = f"{gigabytes:.1f} GB available; large kernels need {_MEMORY_NEEDED_GB:g} GB to compile"
    if gigabytes >= _MEMORY_NEEDED_GB:
        return Check("Memory", State.OK, detail)
    return Check("Memory", State.WARNING, detail, "close other programs, or use a machine with more memory")


_CHECKS: tuple[tuple[str, Callable[[], Check]], ...] = (
    ("Python", _python),
    ("Compilers and headers", _toolchain),
    ("Emulator's compiler", _compiler),
    ("C++ runtime", _runtime),
    ("PyTorch", _torch),
    ("GPU", _gpu),
    ("Sandbox", _sandbox),
    ("Disk", _disk),
    ("Memory", _memory),
)
