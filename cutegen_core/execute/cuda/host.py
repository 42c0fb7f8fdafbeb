"""The memory owner of TEST: torch-free, long-lived, one context. `host_process` is its client.

1. It keeps one runner prewarmed beside those that serve a trial (`open` takes it and starts the next).
2. `execute` allocates the tensors of one workload, copies the inputs in from files, has the runner run the plan once,
   and looks at what happened: guards around every tensor, inputs bit for bit, then outputs go back into their files.
3. A kernel that faulted is run once more with writable inputs, in a runner of its own, to tell a write to an input
   from any other wild access.
4. `close` ends a trial's runner. A fault ends it before; the host's own context is untouched by it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import DriverError
from cutegen_core.execute.cuda.layout import Shared
from cutegen_core.execute.cuda.memory import Buffer
from cutegen_core.execute.cuda.program import Program
from cutegen_core.execute.cuda.runner_process import RunnerAnswer, RunnerProcess
from cutegen_core.execute.cuda.wire import exit_when_closed
from cutegen_core.machine.worker import Message, serve
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Finding, Status

_TOLD_APART = "out-of-bounds"


class Host:
    """Runs plans on files of values."""

    def __init__(self, uuid: str) -> None:
        driver.start()
        self._uuid = uuid
        self._trials: dict[int, RunnerProcess] = {}
        self._standby = RunnerProcess(uuid)

    def handle(self, request: Message) -> Message:
        """Answers one request; what goes wrong here is a "machine_error"."""
        try:
            match request["op"]:
                case "open":
                    return self._open(request["trial"])
                case "execute":
                    return self._execute(request)
                case "close":
                    self._close(request["trial"])
                case "prepare":
                    self._standby.wait_until_ready()
                    return {"sandbox": self._standby.sandbox}
            return {}
        except MachineError as error:
            return {"machine_error": str(error)}

    def _open(self, trial: int) -> Message:
        runner = self._take()
        self._trials[trial] = runner
        return {"sandbox": runner.sandbox}

    def _close(self, trial: int) -> None:
        if trial in self._trials:
            self._trials.pop(trial).close()

    def _take(self) -> RunnerProcess:
        """The prewarmed runner; the next one starts while this one works."""
        runner, self._standby = self._standby, RunnerProcess(self._uuid)
        try:
            runner.wait_until_ready()
            return runner
        except MachineError:  # somebody ended it while it waited; its successor tells whether there is more to it
            runner.close()
            runner, self._standby = self._standby, RunnerProcess(self._uuid)
            runner.wait_until_ready()
            return runner

    def _find_runner(self, trial: int) -> RunnerProcess:
        """The trial's runner; after a fault, another."""
        runner = self._trials[trial]
        if not runner.alive:
            runner.close()
            runner = self._trials[trial] = self._take()
        return runner

    def _execute(self, request: Message) -> Message:
        cubin, program = Path(request["cubin"]).read_bytes(), Program.read(request["program"])
        with ExitStack() as cleanup:
            try:
                tensors = _Tensors(cleanup, request["inputs"], request["outputs"])
            except DriverError as error:
                raise MachineError(f"there is not enough free GPU memory for the test's tensors: {error}") from error
            answer = self._run(self._find_runner(request["trial"]), cubin, program, tensors, request)
            if answer.findings and answer.findings[0].kind == _TOLD_APART:
                answer = self._blame_input(answer, cubin, program, tensors, request)
            if answer.passed:
                answer = tensors.inspect() or answer
            if answer.passed:
                tensors.write_outputs()
        return {"status": answer.status, "message": answer.message, "findings": [asdict(f) for f in answer.findings]}

    def _run(
        self, runner: RunnerProcess, cubin: bytes, program: Program, tensors: _Tensors, request: Message,
        *, inputs_writable: bool = False,
    ) -> RunnerAnswer:  # fmt: skip
        with tensors.share() as shared:
            loaded = runner.load(cubin, program, [shared], inputs_writable=inputs_writable)
        if not loaded.passed:
            return loaded
        return runner.run(poison=request["poison"], timeout_s=request["timeout_s"])

    def _blame_input(
        self, answer: RunnerAnswer, cubin: bytes, program: Program, tensors: _Tensors, request: Message
    ) -> RunnerAnswer:
        runner = self._take()
        try:
            self._run(runner, cubin, program, tensors, request, inputs_writable=True)
        finally:
            runner.close()
        name = tensors.find_changed_input()
        if not name:
            return answer
        message = f"the kernel writes to its input {name}; inputs are read-only: write to an output or to scratch"
        finding = Finding("input-modified", message, variable=name)
        return replace(answer, status=Status.INPUT_MODIFIED, message=message, findings=(finding,))


class _Tensors:
    """The tensors of one workload on the device; `cleanup` frees them."""

    def __init__(self, cleanup: ExitStack, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
        self._files = {name: Path(path) for name, path in (*inputs.items(), *outputs.items())}
        self._outputs = frozenset(outputs)
        self._buffers: dict[str, Buffer] = {}
        for name, path in self._files.items():
            self._buffers[name] = buffer = Buffer.allocate(path.stat().st_size)
            cleanup.callback(buffer.free)
            if name not in self._outputs:
                driver.copy_in(buffer.address, path.read_bytes())

    @contextmanager
    def share(self) -> Iterator[list[Shared]]:
        """All of them as one buffer set; the descriptors live as long as the block."""
        shared = [b.share(name, output=name in self._outputs) for name, b in self._buffers.items()]
        try:
            yield shared
        finally:
            for each in shared:
                os.close(each.fd)

    def inspect(self) -> RunnerAnswer | None:
        """A verdict when something was written that must not be."""
        for name, buffer in self._buffers.items():
            if damage := buffer.find_damage():
                message = damage.describe(name)
                return RunnerAnswer(Status.MEMORY_ERROR, message, (Finding("out-of-bounds", message, variable=name),))
        if name := self.find_changed_input():
            return RunnerAnswer(Status.INPUT_MODIFIED, f"the kernel has changed its input {name}")
        return None

    def find_changed_input(self) -> str:
        """The first input that is not what its file says, "" when all are."""
        return next(
            (n for n in self._files if n not in self._outputs and self._read_device(n) != self._read_file(n)), ""
        )

    def write_outputs(self) -> None:
        """Writes the outputs into their files."""
        for name in self._outputs:
            self._files[name].write_bytes(self._read_device(name))

    def _read_device(self, name: str) -> bytearray:
        return driver.copy_out(self._buffers[name].address, self._buffers[name].nbytes)

    def _read_file(self, name: str) -> bytes:
        return self._files[name].read_bytes()


if __name__ == "__main__":
    exit_when_closed(
        int(os.environ["CUTEGEN_PIPES"].split(",")[0])
    )  # an engine that dies must not leave a hanging kernel
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
    serve(Host(sys.argv[1]).handle)
