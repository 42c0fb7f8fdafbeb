"""Own the memory of the TEST stage: a torch-free, long-lived process with one context. `executors.gpu` is its client.

1. It keeps one prewarmed runner in addition to those serving a trial (`open` takes it and starts the next).
2. `execute` allocates the tensors of one workload, copies the inputs from files, and lets the runner run the plan once.
   Then it checks the guards around every tensor and every bit of the inputs, and writes the outputs to their files.
3. If the kernel faulted, another runner repeats the run with writable inputs, to distinguish a write to an input from
   other accesses out of bounds.
4. `close` ends a trial's runner. A fault ends it earlier; the host's own context is not affected.
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
from cutegen_core.machine.worker import Message, serve
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Finding, Status

_TOLD_APART = "out-of-bounds"


class Host:
    """Runs launch plans on files of values."""

    def __init__(self, uuid: str) -> None:
        driver.start()
        self._uuid = uuid
        self._trials: dict[int, RunnerProcess] = {}
        self._standby = RunnerProcess(uuid)

    def handle(self, request: Message) -> Message:
        """Answer one request; a failure of the machine is answered as "machine_error"."""
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
        """Take the prewarmed runner; the next one starts while this one works."""
        runner, self._standby = self._standby, RunnerProcess(self._uuid)
        try:
            runner.wait_until_ready()
            return runner
        except MachineError:  # it may have been killed while it waited; if its successor fails too, report that
            runner.close()
            runner, self._standby = self._standby, RunnerProcess(self._uuid)
            runner.wait_until_ready()
            return runner

    def _find_runner(self, trial: int) -> RunnerProcess:
        """Return the trial's runner, or a new one after a fault."""
        runner = self._trials[trial]
        if not runner.alive:
            runner.close()
            runner = self._trials[trial] = self._take()
        return runner

    def _execute(self, request: Message) -> Message:
        cubin, program = Path(request["cubin"]).read_bytes(), Program.from_json(request["program"])
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
        """Share all tensors as one buffer set; leaving the context closes the descriptors."""
        shared = [b.share(name, output=name in self._outputs) for name, b in self._buffers.items()]
        try:
            yield shared
        finally:
            for each in shared:
                os.close(each.fd)

    def inspect(self) -> RunnerAnswer | None:
        """Return a verdict if the kernel wrote outside a tensor or to an input."""
        for name, buffer in self._buffers.items():
            if damage := buffer.find_damage():
                message = damage.describe(name)
                return RunnerAnswer(Status.MEMORY_ERROR, message, (Finding("out-of-bounds", message, variable=name),))
        if name := self.find_changed_input():
            return RunnerAnswer(Status.INPUT_MODIFIED, f"the kernel has changed its input {name}")
        return None

    def find_changed_input(self) -> str:
        """Return the first input that differs from its file, or ""."""
        return next(
            (n for n in self._files if n not in self._outputs and self._read_device(n) != self._read_file(n)), ""
        )

    def write_outputs(self) -> None:
        """Write the outputs to their files."""
        for name in self._outputs:
            self._files[name].write_bytes(self._read_device(name))

    def _read_device(self, name: str) -> bytearray:
        return driver.copy_out(self._buffers[name].address, self._buffers[name].nbytes)

    def _read_file(self, name: str) -> bytes:
        return self._files[name].read_bytes()


def main() -> None:
    """Serve as `python -m cutegen_core.execute.cuda.host GPU_UUID`, for `executors.gpu`."""
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
    serve(Host(sys.argv[1]).handle)


if __name__ == "__main__":
    main()
