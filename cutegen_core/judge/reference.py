"""Client of the sandboxed torch worker that runs a problem's reference.

The file's Python runs only in that worker, which has no keys, no network, no files but the torch installation and
`scratch`, a memory limit, and a time limit per request. This module replaces the sizes in the text
(`problem_source.with_sizes`), so the worker receives a complete reference and keeps only caches between requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.judge.reference_process.full_sizes import SizedRun
from cutegen_core.judge.reference_process.reduction import Cost
from cutegen_core.machine.worker import Message, Worker
from cutegen_core.records.errors import MachineError, ProblemError, WorkerLimitError
from cutegen_core.records.graph import Graph, InputFacts, Node, Operand, Ref
from cutegen_core.records.problem import (
    DEFAULT_TOLERANCE,
    FINITE_MATH,
    Problem,
    Signature,
    TensorRole,
    TensorSpec,
    Values,
    Workload,
    WorkloadRole,
)
from cutegen_core.records.trial import Comparison, Mismatch

# A forking worker enforces the time limit itself; the client kills it only if it does not answer at all.
_GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class ReferenceLimits:
    """ReferenceLimits of one reference.

    Attributes:
        seconds: wall clock of one request; the first one also imports torch (2-3 s).
        memory_bytes: address space of the worker.
    """

    seconds: float = 120.0
    memory_bytes: int = 12 << 30


class LintRun(NamedTuple):
    """Result of running a reference for the lint.

    Attributes:
        found: (rule of `lint.rules`, finding) pairs, in the order of the checks.
        usable: adversarial values on which the reference is defined.
    """

    found: tuple[tuple[str, str], ...]
    usable: tuple[Values, ...]


class Reference:
    """The reference of one problem. Methods raise ProblemError for a fault of the file, MachineError for one of ours.

    Args:
        scratch: folder for inputs; outputs to be compared must also lie under it. Created when missing.
        worker: a worker from `start_worker` that several references share and its starter closes; its folder must
            contain `scratch`. By default the reference starts its own worker, which takes 2-3 s at the first request.
    """

    def __init__(
        self, problem: Problem, scratch: Path, limits: ReferenceLimits | None = None, worker: Worker | None = None
    ) -> None:
        self.problem = problem
        self._limits = limits or ReferenceLimits()
        self.scratch = scratch.absolute()
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
        self._signatures: dict[str, Signature] = {}
        self._graphs: dict[str, Graph] = {}
        self._ladders: dict[str, tuple[tuple[SizedRun, ...], ...]] = {}
        self._derived: dict[str, Mapping[Values, str]] = {}
        self._digests: dict[tuple[str, int], str] = {}
        self._facts: Mapping[str, InputFacts] | None = None
        self._owned = worker is None
        self._worker = worker or start_worker(self.scratch, self._limits)

    def source(self, workload: Workload) -> str:
        """Return the reference's source with the workload's sizes; line numbers stay those of the file."""
        try:
            return problem_source.with_sizes(self.problem.source, self._slots, workload.sizes)
        except KeyError as error:
            raise ProblemError(f"{self.problem.origin}: workload {workload.name}: it has no size {error}.") from error

    def signature(self, workload: Workload) -> Signature:
        """Return inputs, outputs and scalars, traced on fake tensors so that no large tensor is allocated."""
        source = self.source(workload)
        if source not in self._signatures:
            self._signatures[source] = signature_from(self._ask("signature", source)["signature"])
        return self._signatures[source]

    def graph(self, workload: Workload) -> Graph:
        """Return the traced graph; one without nodes but with a reason if tracing failed."""
        source = self.source(workload)
        if source not in self._graphs:
            self._graphs[source] = _graph_from(self._ask("graph", source)["graph"])
        return self._graphs[source]

    def write_inputs(self, workload: Workload, seed: int, *, derived: bool = False) -> Mapping[TensorSpec, Path]:
        """Write a raw file for every input, parameter and buffer; equal seeds give equal values.

        Args:
            derived: draw the workload's values as `find_derived` found them, within the structure of the file's own.
        """
        folder = self.scratch / f"{workload.name}-{seed}"
        folder.mkdir(exist_ok=True)
        drawing = _drawing(workload, seed) | {"derived": derived}
        answer = self._ask("inputs", self.source(workload), **drawing, folder=str(folder))
        self._digests[workload.name, seed] = answer["digest"]
        return {spec: folder / f"{spec.name}.bin" for spec in self.signature(workload).inputs}

    def compare(
        self,
        workload: Workload,
        seed: int,
        outputs: Mapping[TensorSpec, Path],
        *,
        poison: int = 0xFF,
        derived: bool = False,
    ) -> tuple[Comparison, ...]:
        """Judge the outputs that a kernel wrote; the expected values are computed only now.

        Args:
            outputs: raw files under `scratch`.
            poison: byte that filled the outputs before the kernel ran.
            derived: as for `write_inputs`; empty if the values of this seed say nothing about a kernel.
        """
        source = self.source(workload)
        judged = [asdict(spec) | {"path": str(path)} | asdict(self.problem.tolerance_for(spec.dtype))
                  for spec, path in outputs.items()]  # fmt: skip
        digest = self._digests.get((workload.name, seed), "")
        drawing = _drawing(workload, seed) | {"derived": derived}
        answer = self._ask("compare", source, **drawing, outputs=judged, poison=poison, digest=digest)
        return tuple(comparison_from(c) for c in answer["comparisons"])

    def lint(self, workload: Workload) -> LintRun:
        """Run the reference at a small workload and return the doubts this raises (`lint_runs`)."""
        tolerance = {dtype: asdict(self.problem.tolerance_for(dtype)) for dtype in DEFAULT_TOLERANCE}
        allow = list(self.problem.allow)
        more = {"values": workload.values.value, "tolerance": tolerance, "allow": allow}
        answer = self._ask("lint", self.source(workload), **more)
        found = tuple((one["rule"], one["what"]) for one in answer["findings"])
        return LintRun(found, tuple(Values(word) for word in answer["usable"]))

    def find_derived(self, workload: Workload) -> Mapping[Values, str]:
        """Return each kind of values that suits the inputs, with why no kernel can be judged on it, or ""."""
        source = self.source(workload)
        if source not in self._derived:
            answer = self._ask("find_derived", source, finite=FINITE_MATH in self.problem.allow)
            self._derived[source] = {Values(kind): doubt for kind, doubt in answer["derived"]}
        return self._derived[source]

    def find_full_sizes(self, benchmark: Workload) -> tuple[tuple[SizedRun, ...], ...]:
        """Return runs near a benchmark's sizes that fit without a GPU: ladders from large to small (`full_sizes`)."""
        if benchmark.name not in self._ladders:
            answer = self._ask("find_full_sizes", self.problem.source, sizes=dict(benchmark.sizes))
            self._ladders[benchmark.name] = tuple(
                tuple(SizedRun(_sizes_from(run["sizes"]), Cost(**run["cost"]), tuple(run["changed"])) for run in ladder)
                for ladder in answer["ladders"]
            )
        return self._ladders[benchmark.name]

    def own_sizes(self) -> Mapping[str, SizeValue]:
        """Return the file's own sizes, by name."""
        return {name: slot.value for name, slot in self._slots.items()}

    def input_facts(self) -> Mapping[str, InputFacts]:
        """Return the properties that each input has under every seed, found at a small workload; by input name."""
        if self._facts is None:
            answer = self._ask("input_facts", self.source(self.typical_workload()))
            self._facts = {name: InputFacts(**fact) for name, fact in answer["facts"].items()}
        return self._facts

    def typical_workload(self) -> Workload:
        """Return the largest small workload whose values are as given."""
        small = self.problem.with_role(WorkloadRole.EMULATOR) or self.problem.workloads[:1]
        if not small:
            raise ProblemError(f"{self.problem.origin}: has no workloads to look at.")
        given = [w for w in small if w.values is Values.GIVEN] or small
        return max(given, key=lambda w: self.signature(w).nbytes)

    def close(self) -> None:
        """End the reference's own worker; files in `scratch` stay for the caller."""
        if self._owned:
            self._worker.close()

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, operation: str, source: str, **more: Any) -> Message:  # noqa: ANN401 - JSON
        payload = {"operation": operation, "source": source, "origin": self.problem.origin, **more}
        return ask(self._worker, payload, self._limits.seconds)


def start_worker(scratch: Path, limits: ReferenceLimits | None = None, *, forks: bool = False) -> Worker:
    """Start a worker for references whose files lie under `scratch`; it imports torch at its first request.

    Args:
        forks: answer each request in a forked child, so that files which do not trust each other can share the worker.
    """
    limits = limits or ReferenceLimits()
    arguments = [str(scratch.absolute()), str(limits.memory_bytes), *(["--fork"] if forks else [])]
    return Worker("cutegen_core.judge.reference_process.main", arguments, name="the reference worker")


def ask(worker: Worker, payload: Message, seconds: float) -> Message:
    """Send one request to a reference worker and return the answer.

    Raises:
        ProblemError: the file is at fault, or it ran past a limit.
        MachineError: the worker failed.
    """
    origin = payload["origin"]
    try:
        answer = worker.request(payload | {"seconds": seconds}, seconds + _GRACE_SECONDS)
    except WorkerLimitError as error:
        raise ProblemError(
            f"{origin}: stopped: {payload['operation']} ran past {seconds:g} s or past the memory limit (an endless "
            f"loop, or sizes too large to run)."
        ) from error
    if "limit" in answer:
        raise ProblemError(f"{origin}: stopped: it {answer['limit']}.")
    if "problem" in answer:
        raise ProblemError(answer["problem"])
    if "machine" in answer:
        raise MachineError(answer["machine"])
    return answer


def signature_from(data: Message) -> Signature:
    """Read a signature from the worker's JSON."""
    return Signature(
        tuple(_spec_from(s) for s in data["inputs"]), tuple(_spec_from(s) for s in data["outputs"]), data["scalars"]
    )


def _sizes_from(data: Message) -> Mapping[str, SizeValue]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def _drawing(workload: Workload, seed: int) -> Message:
    return {"values": workload.values.value, "seed": seed}


def _spec_from(data: Message) -> TensorSpec:
    return TensorSpec(data["name"], data["dtype"], tuple(data["shape"]), TensorRole(data["role"]))


def _graph_from(data: Message) -> Graph:
    nodes = tuple(
        Node(n["name"], n["op"], _operands(n["args"]), {k: _operand(v) for k, v in n["kwargs"].items()},
             tuple(n["shape"]), n["dtype"])
        for n in data["nodes"]
    )  # fmt: skip
    return Graph(nodes, tuple(data["outputs"]), data["reason"], data["constants"])


def _operands(values: Sequence[Any]) -> tuple[Operand, ...]:
    return tuple(_operand(v) for v in values)


def _operand(value: Any) -> Operand:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return Ref(value["node"])
    if isinstance(value, list):
        return _operands(value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def comparison_from(data: Message) -> Comparison:
    """Read a comparison from a judge's JSON."""
    first = tuple(Mismatch(tuple(m["index"]), m["got"], m["want"]) for m in data["first"])
    heatmap = tuple(tuple(row) for row in data["heatmap"])
    return Comparison(**(data | {"shape": tuple(data["shape"]), "first": first, "heatmap": heatmap}))
