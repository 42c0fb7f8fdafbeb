"""Start and command a runner, the process that runs one candidate; it starts before the candidate is known.

    runner = RunnerProcess(uuid)            # starts at once: driver, context, sandbox
    runner.load(cubin, program, sets)       # another process's memory, as descriptors; does not load the module yet
    runner.run(0, timeout_s=10)             # fresh module, outputs poisoned, one run of the plan on buffer set 0
    runner.measure([1, 2, 3], ...)          # fresh module, device time of those sets
    runner.close()                          # ends the runner and every process it started

This module needs no CUDA, so engine, host and judge can use it. A candidate's fault is a `RunnerAnswer`, a machine's
fault is a MachineError. After a fault the runner takes no more commands (`alive` is False): close it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cutegen_core.execute.cuda.layout import Shared
from cutegen_core.execute.cuda.program import Program
from cutegen_core.execute.cuda.verdicts import Fault, judge_error, make_timeout
from cutegen_core.execute.cuda.wire import Message, make_pair
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Finding, Status

GRACE_S = 1.0
"""Seconds after the time limit at which a runner is killed if it has not answered TIMEOUT by itself."""

START_S = 60.0
_TAIL_BYTES = 4000
_CRASHES = tuple(-s for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Exit codes of crashes in native code; any other code is a fault of the workbench or of another program."""

_LEAVE_S = 0.5


@dataclass(frozen=True)
class RunnerAnswer:
    """The outcome of a command for the candidate.

    Attributes:
        status: PASSED, LAUNCH_ERROR, RUNTIME_ERROR, MEMORY_ERROR or TIMEOUT.
        findings: details of a fault.
        seconds: time from the command to its answer.
        result: of a measurement: "us", the device time in µs of each set in order, and "method".
    """

    status: Status
    message: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED


class RunnerProcess:
    """A runner; the constructor starts it and returns before it is ready. For one thread at a time.

    Args:
        uuid: of the GPU, the only one the runner sees.
        measures: whether it prepares for `measure` (buffers of four times the L2).

    Attributes:
        sandbox: the sandbox level it measured on itself; "" until it is ready.
        alive: whether it can take another command.
    """

    def __init__(self, uuid: str, *, measures: bool = False) -> None:
        self.sandbox = ""
        self.alive = True
        self._home = tempfile.TemporaryDirectory(prefix="cutegen-runner-")
        self._log = open(Path(self._home.name) / "log", "w+b")  # noqa: SIM115 - lives as long as the process
        self._channel, theirs = make_pair()
        environment = child_environment(Path(self._home.name)) | {
            "CUTEGEN_CHANNEL": str(theirs.fileno()), "CUDA_VISIBLE_DEVICES": uuid,
            # load everything before the first launch, and write no cache into the user's home
            "CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_DISABLE": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "cutegen_core.execute.cuda.runner", *(["--measures"] if measures else [])]
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=(theirs.fileno(),), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, timeout_s: float = START_S) -> None:
        """Wait until the runner is prewarmed; every command does this first.

        Raises:
            MachineError: it failed before it was ready; the message contains its output.
        """
        if self.sandbox:
            return
        try:
            self.sandbox = str(self._receive(timeout_s)["sandbox"])
        except TimeoutError as error:
            raise self._make_lost_error(f"was not ready within {timeout_s:g} s") from error
        except EOFError as error:
            raise self._make_lost_error(f"died with {_describe_exit(self._exit_code())}") from error

    def load(
        self, cubin: bytes, program: Program, sets: Sequence[Sequence[Shared]], *, inputs_writable: bool = False
    ) -> RunnerAnswer:
        """Map buffer sets and allocate scratch; frees those of an earlier `load`.

        Args:
            sets: the tensors of each buffer set; all sets have the same names and sizes.
            inputs_writable: used only to find out which input a kernel writes.

        Returns:
            LAUNCH_ERROR if the scratch does not fit on the device.
        """
        self.wait_until_ready()
        image = os.memfd_create("cubin", os.MFD_CLOEXEC)
        try:
            os.write(image, cubin)
            described = [[_describe_tensor(shared) for shared in each] for each in sets]
            request = {
                "op": "load",
                "program": program.to_json(),
                "sets": described,
                "inputs_writable": inputs_writable,
            }
            fds = [image, *(shared.fd for each in sets for shared in each)]
            return self._request(request, START_S, fds)
        finally:
            os.close(image)

    def run(self, index: int = 0, *, poison: int = 0xFF, calls: int = 1, timeout_s: float) -> RunnerAnswer:
        """Load the module afresh and run the plan on one buffer set, with outputs and scratch poisoned each time."""
        request = {"op": "run", "set": index, "poison": poison, "calls": calls, "timeout_s": timeout_s}
        return self._request(request, timeout_s)

    def measure(
        self, order: Sequence[int], *, warm: int = 0, warm_runs: int = 2, timeout_s: float, not_before: float = 0.0
    ) -> RunnerAnswer:
        """Load the module afresh and measure the device time of the sets in `order` (`measuring.Meter.measure`).

        The warm-up runs on another set. The answer's `result` has "us", a list of numbers, and "method".

        Args:
            not_before: the device rests until then, in the time of `time.monotonic`, while the module is loaded.
        """
        request = {
            "op": "measure", "order": list(order), "warm": warm, "warm_runs": warm_runs, "timeout_s": timeout_s,
            "not_before": not_before,
        }  # fmt: skip
        return self._request(request, timeout_s)

    def read_log(self) -> str:
        """Return the end of the runner's output, which includes a kernel's printf."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _TAIL_BYTES))
        return self._log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """End the runner: close its channel, then kill it; returns when the process is gone. Safe to call twice."""
        self.alive = False
        self._channel.close()  # the runner exits when its channel closes
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        self._home.cleanup()

    def _request(self, request: Mapping[str, Any], timeout_s: float, fds: Sequence[int] = ()) -> RunnerAnswer:
        self.wait_until_ready()
        started = time.monotonic()
        try:
            self._channel.send(request, fds)
            message = self._receive(timeout_s + GRACE_S)
            answer = self._judge(message, timeout_s)
        except TimeoutError:
            answer = _make_faulty(make_timeout(timeout_s))
        except EOFError as error:
            code = self._exit_code()
            if code not in _CRASHES:
                raise self._make_lost_error(f"died with {_describe_exit(code)}") from error
            answer = RunnerAnswer(Status.RUNTIME_ERROR, f"the driver crashed on this kernel ({_describe_exit(code)})")
        self.alive = answer.passed
        return replace(answer, seconds=time.monotonic() - started)

    def _judge(self, message: Message, timeout_s: float) -> RunnerAnswer:
        match message["ended"]:
            case "well":
                return RunnerAnswer(Status.PASSED, result=message["result"])
            case "refused":
                return RunnerAnswer(Status.LAUNCH_ERROR, message["message"])
            case "damaged":
                finding = Finding("out-of-bounds", message["message"], variable=message["scratch"])
                return RunnerAnswer(Status.MEMORY_ERROR, message["message"], (finding,))
            case "unfinished":
                return _make_faulty(make_timeout(timeout_s))
        name, call, text = (message[key] for key in ("name", "call", "text"))
        found = judge_error(name, call, text, self.read_log())
        if found is None:
            raise MachineError(f"the GPU runner: {call} failed with {name}: {text}.")
        return _make_faulty(found)

    def _receive(self, timeout_s: float) -> Message:
        message = self._channel.receive(timeout_s).message
        if "machine_error" in message:
            self.alive = False
            raise MachineError(message["machine_error"])
        return message

    def _exit_code(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        return self._process.returncode

    def _make_lost_error(self, how: str) -> MachineError:
        self.alive = False
        return MachineError(f"the GPU runner {how}. Its last output:\n{self.read_log() or '(none)'}")


def _describe_exit(code: int | None) -> str:
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


def _describe_tensor(shared: Shared) -> Message:
    return {"name": shared.name, "layout": asdict(shared.layout), "output": shared.output}


def _make_faulty(found: Fault) -> RunnerAnswer:
    findings = (Finding(found.kind, found.message),) if found.kind else ()
    return RunnerAnswer(found.status, found.message, findings)
