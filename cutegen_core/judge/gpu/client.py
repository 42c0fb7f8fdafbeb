"""Clients of the two judge processes on the GPU; this module needs no torch and no CUDA context.

`DeviceJudge` owns the buffer sets and judges; it keeps their descriptors and passes them to every runner.
`CompiledReference` times torch.compile on the same inputs. Both live as long as the user works on a problem, and
restart after a crash.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from cutegen_core.execute.cuda.layout import Layout, Shared
from cutegen_core.judge.reference import comparison_from
from cutegen_core.machine.worker import Message, Worker
from cutegen_core.records.errors import MachineError, ProblemError, WorkerLimitError
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec, Values, Workload
from cutegen_core.records.trial import Comparison

PROGRAM = "cutegen_core.judge.gpu.main"
START_S = 180.0
_PREPARE_S, _COMPARE_S, _QUICK_S = 180.0, 300.0, 60.0
_GRACE_S = 10.0


@dataclass(frozen=True)
class Drawing:
    """Origin of the values in the sets.

    Attributes:
        source: the reference with the workload's sizes in place.
    """

    source: str
    values: Values
    seed: int


@dataclass(frozen=True)
class Sets:
    """Buffer sets that the judge has prepared.

    Attributes:
        shared: the tensors of each set, as runners map them; set 0 is for the warm-up and the first comparison.
        flushed_bytes: written between two samples.
    """

    shared: tuple[tuple[Shared, ...], ...]
    flushed_bytes: int

    @property
    def timed(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.shared)))


@dataclass(frozen=True)
class Unfit:
    """The reason why this GPU's memory is too small for the sets, or for the reference beside them."""

    reason: str


@dataclass(frozen=True)
class BaselineRound:
    """One round of a baseline: device time in µs per requested set, or the reason why there is none."""

    us: tuple[float, ...] = ()
    method: str = ""
    untimed: str = ""


class BaselineTimer(Protocol):
    """Times a baseline."""

    def measure(self, order: Sequence[int], warm_runs: int, seconds: float) -> BaselineRound: ...


class _Client:
    """Common part of both clients."""

    def __init__(self, problem: Problem, uuid: str, role: str, name: str) -> None:
        self.problem = problem
        self._worker = Worker(PROGRAM, [role, uuid], name=name, descriptors=True)
        self.pid = 0
        self.sandbox = ""

    def start(self) -> None:
        """Import torch and create the context now instead of at the first request; takes 4-10 s."""
        if not self.pid:
            hello = self._worker.request({"operation": "hello"}, START_S)
            self.pid, self.sandbox = hello["pid"], hello["sandbox"]

    def measure(self, order: Sequence[int], warm_runs: int, seconds: float) -> BaselineRound:
        """Measure one round over the sets; a baseline that fails or takes too long is also an answer."""
        request = {
            "operation": "measure", "order": list(order), "warm_runs": warm_runs, "seconds": seconds,
            "allow": list(self.problem.allow),
        }  # fmt: skip
        try:
            answer = self._ask(request, seconds + _GRACE_S)
        except WorkerLimitError:
            return BaselineRound(untimed=f"took longer than {seconds:g} s")
        return BaselineRound(tuple(answer.get("us", ())), answer.get("method", ""), answer.get("untimed", ""))

    def close(self) -> None:
        """End the process; its GPU memory is freed once no descriptor is open."""
        self.pid = 0
        self._worker.close()

    def _describe(self, drawing: Drawing, specs: Sequence[TensorSpec]) -> Message:
        return {
            "source": drawing.source, "origin": self.problem.origin, "values": drawing.values.value,
            "seed": drawing.seed, "specs": [asdict(spec) for spec in specs],
        }  # fmt: skip

    def _ask(self, request: Mapping[str, Any], seconds: float) -> Message:
        """Return the answer.

        Raises:
            MachineError: memory ran out; the process has lost its sets, so it is ended.
        """
        answer = self._ask_or_unfit(request, seconds)
        if isinstance(answer, Unfit):
            self.close()
            raise MachineError(
                f"{self._worker.name} ran out of memory: {answer.reason}; close other programs on the GPU, or give the "
                "problem smaller sizes."
            )
        return answer

    def _ask_or_unfit(self, request: Mapping[str, Any], seconds: float) -> Message | Unfit:
        """Return the answer, or Unfit if there is too little memory for it."""
        self.start()
        try:
            answer = self._worker.request(request, seconds)
        except MachineError:
            self.close()
            raise
        if "problem" in answer:
            raise ProblemError(answer["problem"])
        if "machine" in answer:
            self.close()  # a failed CUDA context cannot recover
            raise MachineError(answer["machine"])
        return Unfit(answer["unfit"]) if "unfit" in answer else answer

    @property
    def _socket(self) -> socket.socket:
        assert self._worker.descriptors is not None
        return self._worker.descriptors


class DeviceJudge(_Client):
    """Owner of the buffer sets of one problem. A fault of the file raises ProblemError, one of ours MachineError."""

    def __init__(self, problem: Problem, uuid: str) -> None:
        super().__init__(problem, uuid, "owner", "the judge on the GPU")
        self._specs: tuple[TensorSpec, ...] = ()
        self._sets = Sets((), 0)
        self._source = ""

    def prepare(self, drawing: Drawing, signature: Signature, sets: int) -> Sets | Unfit:
        """Draw fresh values into up to `sets` timed buffer sets and one more; fill outputs with poison.

        Descriptors stay valid until another workload is prepared or the judge is closed.
        """
        specs = signature.tensors
        if (self._source, self._specs) != (drawing.source, specs):
            self._forget()  # first, since an open descriptor keeps memory allocated
        request = {"operation": "prepare", "sets": sets, **self._describe(drawing, specs)}
        answer = self._ask_or_unfit(request, _PREPARE_S)
        if isinstance(answer, Unfit):
            self._forget()
            return answer
        if not answer["kept"]:
            self._forget()
        if not self._sets.shared:
            self._receive_sets(answer["sets"], answer["flushed_bytes"], specs)
            self._source, self._specs = drawing.source, specs
        return self._sets

    def compare(self, workload: Workload) -> tuple[Comparison, ...] | Unfit:
        """Judge set 0 whole. The candidate must have run before: the expected values are computed only now.

        Args:
            workload: the one that was prepared; gives the tolerances.

        If memory runs out, the sets keep their content, so that the comparison can be repeated.
        """
        outputs = [
            {
                "name": s.name,
                "dtype": s.dtype,
                "shape": s.shape,
                "tolerance": asdict(self.problem.tolerance_for(s.dtype, s.name, workload)),
            }
            for s in self._specs
            if s.role is TensorRole.OUTPUT
        ]
        answer = self._ask_or_unfit({"operation": "compare", "outputs": outputs}, _COMPARE_S)
        return answer if isinstance(answer, Unfit) else tuple(comparison_from(c) for c in answer["comparisons"])

    def check(self, timed: Sequence[int]) -> str:
        """Check these sets' outputs at random positions; return the first error in one line, or ""."""
        slips = self._ask({"operation": "check", "timed": list(timed)}, _QUICK_S)["slips"]
        if not slips:
            return ""
        first = slips[0]
        where = f"{first['output']} in buffer set {first['index']}"
        return (
            f"{first['wrong']} of {first['looked_at']} elements looked at of {where}, such as {first['got']:.7g} for "
            f"{first['want']:.7g}"
        )

    def check_guards(self) -> str:
        """Check the guard bytes around all tensors; describe damage in one line, or return "" if all are intact."""
        damage = self._ask({"operation": "guards"}, _QUICK_S)["damage"]
        if not damage:
            return ""
        first = damage[0]
        return f"bytes {first['where']} {first['tensor']} were written over, {first['distance']} from it"

    def close(self) -> None:
        self._forget()
        super().close()

    def _receive_sets(self, count: int, flushed_bytes: int, specs: Sequence[TensorSpec]) -> None:
        """Receive the descriptors of `count` sets; `_sets` holds those received, even after an error."""
        for index in range(count):
            self._sets = Sets((*self._sets.shared, self._receive_set(index, specs)), flushed_bytes)

    def _receive_set(self, index: int, specs: Sequence[TensorSpec]) -> tuple[Shared, ...]:
        answer = self._ask({"operation": "export", "set": index}, _QUICK_S)
        _, fds, _, _ = socket.recv_fds(self._socket, 1, len(specs), socket.MSG_CMSG_CLOEXEC)
        return tuple(
            Shared(spec.name, fd, Layout(**layout), spec.role is TensorRole.OUTPUT)
            for spec, fd, layout in zip(specs, fds, answer["layouts"], strict=True)
        )

    def _forget(self) -> None:
        for shared in self._sets.shared:
            for each in shared:
                os.close(each.fd)
        self._sets, self._source, self._specs = Sets((), 0), "", ()


class CompiledReference(_Client):
    """Times torch.compile on the judge's inputs."""

    def __init__(self, problem: Problem, uuid: str) -> None:
        super().__init__(problem, uuid, "compiler", "torch.compile")
        self._adopted: Sets | None = None

    def adopt(self, drawing: Drawing, signature: Signature, sets: Sets) -> None:
        """Map the inputs; does nothing if the sets are the previous ones with new values."""
        self.start()
        if sets is self._adopted:
            return
        self._adopted = None
        specs = signature.tensors
        for index, shared in enumerate(sets.shared):
            socket.send_fds(self._socket, [b"."], [each.fd for each in shared])
            self._ask({"operation": "adopt", "set": index, **self._describe(drawing, specs)}, _PREPARE_S)
        self._adopted = sets

    def measure(self, order: Sequence[int], warm_runs: int, seconds: float) -> BaselineRound:
        """Measure one round; if the process dies, the baseline only stays untimed, since nothing else depends on it."""
        try:
            return super().measure(order, warm_runs, seconds)
        except MachineError as error:
            return BaselineRound(untimed=str(error))

    def trim(self) -> None:
        """Free what memory can be given up without compiling again; sets stay mapped."""
        if self.pid:
            self._ask({"operation": "trim"}, _QUICK_S)

    def close(self) -> None:
        self._adopted = None
        super().close()
