"""Watch a GPU during a measurement: clocks, temperature, power, reasons for slowdown, other programs on it.

Uses NVML (nvidia-ml-py), which needs no CUDA context. `Monitor` reads the state every 10 ms in a thread; `Period`
summarises the states between two moments.

A sample is dropped during slowdown by heat or hardware protection (HwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown,
SwThermalSlowdown): these come and go and say nothing about a kernel. The software power cap drops no sample: a large
matrix product holds an H200 at its power limit all the time, so that is its real speed there. The cap affects every
contender of the same rounds, and is recorded. https://docs.nvidia.com/deploy/nvml-api/ (nvmlClocksEventReasons)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pynvml

from cutegen_core.records.errors import MachineError

_REASONS = {
    0x1: "idle", 0x2: "clocks set by the administrator", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake", 0x100: "display clocks",
    1 << 62: "slowdowns are not reported by this GPU",
}  # fmt: skip
_UNREPORTED = 1 << 62
_DROPPING = 0x8 | 0x20 | 0x40 | 0x80
_SILENT = 0x1
_INTERVAL_S = 0.01
_HOLDERS = (b"cutegen_core.execute.cuda.", b"cutegen_core.judge.gpu.")


@dataclass(frozen=True)
class GpuState:
    """The state of the device at one moment.

    Attributes:
        at: in the time of `time.monotonic`.
        power_w: 0 if the GPU does not report it.
        reasons: NVML's bits for the reasons why clocks are lower than possible.
    """

    at: float
    sm_clock_mhz: int
    memory_clock_mhz: int
    temperature_c: int
    power_w: float
    reasons: int

    @property
    def throttled(self) -> bool:
        """Whether heat or hardware protection slows it down, so that measurements at this moment are useless."""
        return bool(self.reasons & _DROPPING)


class NvmlGpu:
    """One device, found by its UUID.

    Raises:
        MachineError: in every method, if the driver does not answer.
    """

    def __init__(self, uuid: str | None = None) -> None:
        """Find the device with that UUID ("GPU-..."); by default the first."""
        _call(pynvml.nvmlInit)
        if uuid is None:
            self._handle = _call(pynvml.nvmlDeviceGetHandleByIndex, 0)
        else:
            self._handle = _call(pynvml.nvmlDeviceGetHandleByUUID, uuid)

    @property
    def name(self) -> str:
        return str(_call(pynvml.nvmlDeviceGetName, self._handle))

    @property
    def uuid(self) -> str:
        return str(_call(pynvml.nvmlDeviceGetUUID, self._handle))

    @property
    def driver(self) -> str:
        return str(_call(pynvml.nvmlSystemGetDriverVersion))

    def read_state(self) -> GpuState:
        """Read the present state."""
        handle = self._handle
        return GpuState(
            at=time.monotonic(),
            sm_clock_mhz=int(_call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)),
            memory_clock_mhz=int(_call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM)),
            temperature_c=int(_call(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)),
            power_w=_call_or_default(pynvml.nvmlDeviceGetPowerUsage, handle, otherwise=0) / 1000.0,
            reasons=_call_or_default(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle, otherwise=_UNREPORTED),
        )

    def count_other_processes(self) -> int:
        """Count the programs that compute on it, without the workbench's own.

        In a container the driver may number processes differently; then the number of our processes is subtracted.
        """
        listed = [int(p.pid) for p in _call(pynvml.nvmlDeviceGetComputeRunningProcesses, self._handle)]
        own = _own_processes()
        known = [pid for pid in listed if pid in own]
        return len(listed) - len(known) if known else max(0, len(listed) - len(own))

    def memory_used_bytes(self) -> int:
        """Return the used memory of the device, including the driver's."""
        return int(_call(pynvml.nvmlDeviceGetMemoryInfo, self._handle).used)

    def memory_total_bytes(self) -> int:
        """Return the total memory of the device."""
        return int(_call(pynvml.nvmlDeviceGetMemoryInfo, self._handle).total)

    def power_limit_w(self) -> float:
        """Return the power limit that the driver enforces."""
        return float(_call(pynvml.nvmlDeviceGetEnforcedPowerLimit, self._handle)) / 1000.0

    def close(self) -> None:
        """Release the driver's library."""
        _call(pynvml.nvmlShutdown)


@dataclass(frozen=True)
class Period:
    """The states seen between two moments, at least one."""

    states: tuple[GpuState, ...]

    @property
    def throttled(self) -> bool:
        return any(state.throttled for state in self.states)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for slowdown in words; empty if there was none."""
        seen = 0
        for state in self.states:
            seen |= state.reasons
        return tuple(text for bit, text in _REASONS.items() if seen & bit & ~_SILENT)

    @property
    def sm_clock_mhz(self) -> tuple[int, int]:
        return _range([s.sm_clock_mhz for s in self.states])

    @property
    def temperature_c(self) -> tuple[int, int]:
        return _range([s.temperature_c for s in self.states])

    @property
    def power_w(self) -> tuple[float, float]:
        watts = [s.power_w for s in self.states]
        return min(watts), max(watts)


class Monitor:
    """Reads the state of a device in a thread until its context is left.

    with Monitor(gpu) as monitor:
        begun = time.monotonic()
        ...
        monitor.since(begun).throttled
    """

    def __init__(self, gpu: NvmlGpu) -> None:
        self._gpu = gpu
        self._states: list[GpuState] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def since(self, begun: float) -> Period:
        """Return the states since that moment; reads one more itself, so there is always at least one."""
        self._states.append(self._gpu.read_state())
        return Period(tuple(state for state in self._states if state.at >= begun))

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._states.append(self._gpu.read_state())


def _own_processes() -> set[int]:
    """Find the workbench's processes that may use a device."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended, or belongs to another user
        if any(module in command for module in _HOLDERS):
            found.add(int(folder.name))
    return found


def _range(values: Sequence[int]) -> tuple[int, int]:
    return min(values), max(values)


def _call_or_default(function: Any, handle: Any, *, otherwise: int) -> int:  # noqa: ANN401 - the library has no types
    """Read a number that not every GPU reports."""
    try:
        return int(function(handle))
    except pynvml.NVMLError_NotSupported:
        return otherwise
    except pynvml.NVMLError as error:
        raise MachineError(f"the NVIDIA driver did not answer {function.__name__}: {error}.") from error


def _call(function: Any, *arguments: Any) -> Any:  # noqa: ANN401 - the library has no types
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise MachineError(f"the NVIDIA driver did not answer {function.__name__}: {error}.") from error
