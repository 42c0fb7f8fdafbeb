"""A runner seen from outside: the process that runs one candidate, started before the candidate is known.

    runner = RunnerProcess(uuid)            # starts at once: driver, context, sandbox
    runner.load(cubin, program, sets)       # memory somebody else owns, as descriptors; the module is not loaded yet
    runner.run(0, timeout_s=10)             # fresh module, outputs poisoned, one run of the plan on buffer set 0
    runner.measure([1, 2, 3], ...)          # fresh module, device time of those sets
    runner.close()                          # and everything it started is gone

Needs no CUDA here: engine, host and judge can all be the one that calls. A candidate's fault is an `RunnerAnswer`; the
machine's is a MachineError. After a fault the runner is spent (`alive` is False): close it.
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
from cutegen_core.machine.worker import child_environment
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Finding, Status

GRACE_S = 1.0
"""A runner answers TIMEOUT by itself; this long after the limit it is killed instead."""

START_S = 60.0
_TAIL_BYTES = 4000
_CRASHES = tuple(-s for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Exit codes that native code leaves behind; everything else is our own fault, or somebody's from outside."""

_LEAVE_S = 0.5


@dataclass(frozen=True)
class RunnerAnswer:
    """How a command ended for the candidate.

    Attributes:
        status: PASSED, LAUNCH_ERROR, RUNTIME_ERROR, MEMORY_ERROR or TIMEOUT.
        findings: what is known of a fault beyond its message.
        seconds: from the command to its answer.
        result: what a measurement gave ("us": device time in µs of each set in order, "method").
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
    """Starts a runner; the constructor returns before it is ready. Not for several threads at once.

    Args:
        uuid: of the GPU, the only one it will see.
        measures: with what `measure` needs (buffers of four times the L2).

    Attributes:
        sandbox: the level it measured on itself; "" until it was ready.
        alive: it can take another command.
    """

    def __init__(self, uuid: str, *, measures: bool = False) -> None:
        self.sandbox = ""
        self.alive = True
        self._home = tempfile.TemporaryDirectory(prefix="cutegen-runner-")
        self._log = open(Path(self._home.name) / "log", "w+b")  # noqa: SIM115 - lives as long as the process
        self._channel, theirs = make_pair()
        environment = child_environment(Path(self._home.name)) | {
            "CUTEGEN_CHANNEL": str(theirs.fileno()), "CUDA_VISIBLE_DEVICES": uuid,
            # everything is loaded before the first launch, and nothing is written to a cache in somebody's home
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
        """Waits until it is prewarmed; every command does.

        Raises:
            MachineError: it could not get that far; the message holds its output.
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
        """Maps buffer sets and allocates scratch, in place of what an earlier `load` brought.

        Args:
            sets: the tensors of each buffer set; all with the same names and sizes.
            inputs_writable: only to find out which input a kernel writes.

        Returns:
            LAUNCH_ERROR when the scratch does not fit on the device.
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
        """The plan on one buffer set, with the module loaded afresh; outputs and scratch poisoned before each call."""
        request = {"op": "run", "set": index, "poison": poison, "calls": calls, "timeout_s": timeout_s}
        return self._request(request, timeout_s)

    def measure(self, order: Sequence[int], *, warm: int = 0, warm_runs: int = 2, timeout_s: float) -> RunnerAnswer:
        """Device time of the sets in `order`, after warming up on another (`gpu.measuring.Meter.measure`).

        The module is loaded afresh. The answer's `result` has "us", a list of numbers, and "method".
        """
        request = {"op": "measure", "order": list(order), "warm": warm, "warm_runs": warm_runs, "timeout_s": timeout_s}
        return self._request(request, timeout_s)

    def read_log(self) -> str:
        """The end of what it printed; a kernel's printf lands here."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _TAIL_BYTES))
        return self._log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Ends it, first by a word, then by force; returns when the process is gone. Safe to call twice."""
        self.alive = False
        self._channel.close()  # the runner leaves when its owner does
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
