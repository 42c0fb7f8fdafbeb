"""Run kernels on a GPU; only this executor's times mean anything.

1. `build` stores the compiler's result by content: the cubin, and next to it the names and signatures of its kernels.
2. `open` takes a prewarmed runner from the host, a process that owns the tensors (`cuda.host`). Each execution holds
   the device's lock. After a fault, a health check of the device comes before the verdict.
3. A *checked* build runs under compute-sanitizer instead, in a process of its own with exact allocations.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda import health, lock
from cutegen_core.execute.cuda.program import FUNCTIONS, Function, load_program
from cutegen_core.execute.cuda.standalone import write_spec
from cutegen_core.execute.nvidia import nvidia_tools, sanitizer
from cutegen_core.execute.port import Built, Execute, Executed, Execution, Progress, WaitForCode
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine import workspace
from cutegen_core.machine.device import DEFAULT_ARCH, Device, detect
from cutegen_core.machine.worker import Message, Worker
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import ExecutorKind, Finding, Status

CUBIN = "candidate.cubin"
_OPEN_S = 120.0
_SLACK_S = 120.0  # beyond the kernel's own limit: copies, and a second run that finds a written input
_CHECK_VERDICTS = {"timeout": Status.TIMEOUT, "launch": Status.LAUNCH_ERROR, "fault": Status.RUNTIME_ERROR}
_FAULTS = (Status.RUNTIME_ERROR, Status.MEMORY_ERROR, Status.INPUT_MODIFIED, Status.TIMEOUT)


class GpuExecutor:
    """Implements `execute.port.Executor` on one GPU. Several threads may use it; `close` ends its processes.

    Args:
        cache: folder for builds; None means the workspace's.
        device: the GPU; None means the machine's first.

    Raises:
        MachineError: there is no GPU in this machine, or no driver for it.
    """

    kind = ExecutorKind.GPU
    measures_speed = True
    needs_code = True
    has_thread_orders = False
    checks_every_trial = False

    def __init__(self, cache: Path | None = None, device: Device | None = None) -> None:
        found = device or detect()
        if found is None or not found.uuid:
            raise MachineError("there is no GPU that CUDA can use in this machine; use the emulator: --executor cpu.")
        self.device = found
        self.can_check = nvidia_tools.find(nvidia_tools.SANITIZER) is not None
        self._cache = cache or workspace.cache_dir("gpu")
        self._host = Worker("cutegen_core.execute.cuda.host", [found.uuid], name="the GPU host")
        self._turn = threading.Lock()
        self._numbers = itertools.count()
        self._sandbox = ""
        self._serving = False

    def build(
        self,
        kernel: KernelFile,
        params: Mapping[str, int | float],
        wait_for_code: WaitForCode,
        *,
        checked: bool,
        arch: str = DEFAULT_ARCH,
    ) -> Built:
        """Wait for the compiler and store its cubin; no kernel is loaded yet."""
        started = time.monotonic()
        code = wait_for_code()
        if not code.cubin or code.lowered is None:
            return Built(Status.COMPILE_ERROR, None, checked, time.monotonic() - started, message="it did not compile")
        functions = {name: asdict(Function(mangled, demangle(mangled))) for name, mangled in code.lowered.items()}
        cubin, cached = self._keep(code.cubin, json.dumps(functions))
        return Built(Status.PASSED, cubin, checked, time.monotonic() - started, cached)

    def write_probe(self, kernel: KernelFile, arch: str) -> None:
        """Find nothing: the kernel runs as NVIDIA's compiler reads it."""

    @contextmanager
    def open(self, built: Built) -> Iterator[Execute]:
        """Open a trial: one runner for all its executions, or for a checked build a sanitizer process for each."""
        if built.checked:
            yield self._check
            return
        trial = next(self._numbers)
        self._sandbox = str(self._ask({"op": "open", "trial": trial}, _OPEN_S)["sandbox"])
        try:
            yield lambda execution: self._execute(trial, execution)
        finally:
            if self._serving:  # if not, the host has ended and its runners with it
                self._ask({"op": "close", "trial": trial}, _OPEN_S)

    def prepare(self, progress: Progress | None = None) -> None:
        """Start the host and its first runner, so that the first trial need not wait for them."""
        if progress:
            progress(f"starting a runner on {self.device.name}")
        self._sandbox = str(self._ask({"op": "prepare"}, _OPEN_S)["sandbox"])

    def close(self) -> None:
        """End the host and its runners; a later trial starts them again."""
        with self._turn:
            self._end_host()

    def describe(self) -> str:
        """Describe the GPU and, once a runner has reported it, the sandbox level."""
        walls = f"; sandbox: {self._sandbox}" if self._sandbox else ""
        return f"{self.device.name} (CUDA {self.device.driver}{walls})"

    def _execute(self, trial: int, execution: Execution) -> Executed:
        assert execution.built.path is not None
        request = {
            "op": "execute", "trial": trial, "cubin": str(execution.built.path),
            "program": load_program(execution.built, execution.plan).to_json(),
            "inputs": {spec.name: str(path) for spec, path in execution.inputs.items()},
            "outputs": {spec.name: str(path) for spec, path in execution.outputs.items()},
            "poison": execution.poison, "timeout_s": execution.timeout_s,
        }  # fmt: skip
        with lock.hold(self.device.uuid, "testing a kernel"):
            started = time.monotonic()
            answer = self._ask(request, 2 * execution.timeout_s + _SLACK_S)
            if answer["status"] in _FAULTS:
                health.check(self.device.uuid)
        findings = tuple(Finding(**each) for each in answer["findings"])
        return Executed(Status(answer["status"]), time.monotonic() - started, answer["message"], findings)

    def _check(self, execution: Execution) -> Executed:
        """Execute under the four tools of compute-sanitizer."""
        assert execution.built.path is not None
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cutegen-checked-") as folder:
            spec = Path(folder) / "spec.json"
            write_spec(
                spec, execution.built.path, load_program(execution.built, execution.plan),
                {tensor.name: path for tensor, path in execution.inputs.items()},
                {tensor.name: tensor.nbytes for tensor in execution.outputs}, uuid=self.device.uuid,
            )  # fmt: skip
            with lock.hold(self.device.uuid, "checking a kernel with compute-sanitizer"):
                findings = sanitizer.check(spec)
        seconds = time.monotonic() - started
        if not findings:
            return Executed(Status.PASSED, seconds)
        first = findings[0]
        where = f"line {first.line}: " if first.line else ""
        status = _CHECK_VERDICTS.get(first.kind, Status.MEMORY_ERROR)
        return Executed(status, seconds, f"{where}{first.message}", findings)

    def _ask(self, request: Message, timeout_s: float) -> Message:
        with self._turn:
            self._serving = True
            try:
                answer = self._host.request(request, timeout_s)
            except MachineError:
                self._end_host()
                raise
            if "machine_error" in answer:
                self._end_host()  # its context may be lost; the next trial gets a new one
                raise MachineError(answer["machine_error"])
        return answer

    def _end_host(self) -> None:
        self._serving = False
        self._host.close()

    def _keep(self, cubin: bytes, functions: str) -> tuple[Path, bool]:
        """Store the build; return its path and whether it existed. Another process may store the same build."""
        folder = self._cache / "builds" / hashlib.sha256(functions.encode() + b"\0" + cubin).hexdigest()
        if (folder / CUBIN).exists():
            return folder / CUBIN, True
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
        (scratch / CUBIN).write_bytes(cubin)
        (scratch / FUNCTIONS).write_text(functions)
        try:
            os.rename(scratch, folder)
        except OSError:
            shutil.rmtree(scratch)
            if not (folder / CUBIN).exists():
                raise
        return folder / CUBIN, False
