"""Client of the sandboxed torch worker that runs a problem's reference.

The file's Python runs only in a process below that worker, which has no keys, no network, no files but the torch
installation, a memory limit, and a time limit per request; the worker itself compares. This module replaces the sizes
in the text (`problem_source.with_sizes`), so a request carries a complete reference and only caches are kept between
requests. What is answered about the file is read as something that the file can have forged (`reference_answers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cutegen_core.judge import kept_answers, problem_source, reference_answers
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.judge.reference_answers import LintRun
from cutegen_core.judge.reference_process import PROGRAM, TRACED
from cutegen_core.judge.reference_process.full_sizes import SizedRun
from cutegen_core.machine import forking
from cutegen_core.machine.worker import Message, Worker
from cutegen_core.records.errors import MachineError, ProblemError, WorkerLimitError
from cutegen_core.records.graph import Graph, InputFacts
from cutegen_core.records.problem import (
    FINITE_MATH,
    Problem,
    Signature,
    TensorSpec,
    Values,
    Workload,
    WorkloadRole,
)
from cutegen_core.records.trial import Comparison, Mismatch

_UNTRACED = frozenset({"inputs", "compare"})
"""Requests that need no fake tensors: a worker that gets no other never imports what these need."""
_LONG_GRAPH = 1000
"""Nodes of a graph that is not sent with each request."""
# The worker enforces the time limit itself; the client kills it only if it does not answer at all.
_GRACE_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True)
class ReferenceLimits:
    """Limits of one reference.

    Attributes:
        seconds: wall clock of one request; the first one of a process also imports torch (2 s).
        memory_bytes: address space of the worker.
    """

    seconds: float = 120.0
    memory_bytes: int = 12 << 30


class Reference:
    """The reference of one problem. Methods raise ProblemError for a fault of the file, MachineError for one of ours.

    Args:
        scratch: folder for inputs; outputs to be compared must also lie under it. Created when missing.
        worker: a worker from `start_worker` that several references share and its starter closes; its folder must
            contain `scratch`. By default the reference starts its own worker (`start_worker`).
    """

    def __init__(
        self, problem: Problem, scratch: Path, limits: ReferenceLimits | None = None, worker: Worker | None = None
    ) -> None:
        self.problem = problem
        self._limits = limits or ReferenceLimits()
        self.scratch = scratch.absolute()
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._file = file_key(problem)
        self._slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
        self._signatures: dict[str, Signature] = {}
        self._graphs: dict[str, Graph] = {}
        self._derived: dict[str, Mapping[Values, str]] = {}
        self._ladders: dict[str, tuple[tuple[SizedRun, ...], ...]] = {}
        self._digests: dict[tuple[str, int], str] = {}
        self._places: dict[str, Mapping[str, Mapping[str, int]]] = {}
        self._traced: dict[str, Message] = {}
        self._facts: Mapping[str, InputFacts] | None = None
        self._owned = worker is None
        self._worker = worker or start_worker(self.scratch, self._limits)

    def get_ready(self) -> None:
        """Have torch imported while something else, such as a compile, goes on; does not wait for it."""
        forking.shared().prepare([PROGRAM])

    def source(self, workload: Workload) -> str:
        """Return the reference's source with the workload's sizes; line numbers stay those of the file.

        Raises:
            ProblemError: the file lacks a size that the workload sets.
        """
        try:
            return problem_source.with_sizes(self.problem.source, self._slots, workload.sizes)
        except KeyError as error:
            raise ProblemError(f"{self.problem.origin}: workload {workload.name}: it has no size {error}.") from error

    def signature(self, workload: Workload) -> Signature:
        """Return inputs, outputs and scalars, traced on fake tensors so that no large tensor is allocated."""
        source = self.source(workload)
        if source not in self._signatures:
            found = self._ask("signature", source, reference_answers.signature)
            self._check_tolerance(found)
            self._signatures[source] = found
        return self._signatures[source]

    def graph(self, workload: Workload) -> Graph:
        """Return the traced graph; one without nodes but with a reason if tracing failed."""
        source = self.source(workload)
        if source not in self._graphs:
            self._graphs[source] = self._ask("graph", source, reference_answers.graph)
        return self._graphs[source]

    def write_inputs(self, workload: Workload, seed: int, *, derived: bool = False) -> Mapping[TensorSpec, Path]:
        """Write a raw file for every input, parameter and buffer; equal seeds give equal values.

        Args:
            derived: draw the workload's values as `find_derived` found them, within the structure of the file's own.
        """
        folder, inputs = self.scratch / f"{workload.name}-{seed}", self.signature(workload).inputs
        folder.mkdir(exist_ok=True)
        asked = self._drawing(workload, seed, derived=derived) | {
            "folder": str(folder),
            "specs": [asdict(spec) for spec in inputs],
        }
        self._digests[workload.name, seed] = self._ask("inputs", self.source(workload), _digest, **asked)
        return {spec: folder / f"{spec.name}.bin" for spec in inputs}

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
        """
        source = self.source(workload)
        judged = [asdict(spec) | {"path": str(path)} | self._tolerance(spec, workload)
                  for spec, path in outputs.items()]  # fmt: skip
        digest = self._digests.get((workload.name, seed), "")
        asked = self._drawing(workload, seed, derived=derived) | {"outputs": judged, "poison": poison, "digest": digest}
        return self._ask("compare", source, _comparisons, **asked)

    def lint(self, workload: Workload) -> LintRun:
        """Run the reference at a small workload and return the doubts this raises (`lint_runs`)."""
        tolerance = {spec.name: self._tolerance(spec, workload) for spec in self.signature(workload).outputs}
        allow = list(self.problem.allow)
        more = {"values": workload.values.value, "tolerance": tolerance, "allow": allow}
        return self._ask("lint", self.source(workload), reference_answers.lint_run, **more)

    def find_derived(self, workload: Workload) -> Mapping[Values, str]:
        """Return each kind of values that suits the inputs, with why no kernel can be judged on it, or ""."""
        source = self.source(workload)
        if source not in self._derived:
            finite = FINITE_MATH in self.problem.allow
            self._derived[source] = self._ask("find_derived", source, reference_answers.derived, finite=finite)
        return self._derived[source]

    def find_full_sizes(self, benchmark: Workload) -> tuple[tuple[SizedRun, ...], ...]:
        """Return runs near a benchmark's sizes that fit without a GPU: ladders from large to small (`full_sizes`)."""
        if benchmark.name not in self._ladders:
            self._ladders[benchmark.name] = self._ask(
                "find_full_sizes",
                self.problem.source,
                lambda answer: reference_answers.ladders(answer, self._slots),
                sizes=dict(benchmark.sizes),
                varied=sorted(self._varied_sizes()),
            )
        return self._ladders[benchmark.name]

    def _varied_sizes(self) -> set[str]:
        """Return the names of the sizes that differ between workloads."""
        every = [{**self.own_sizes(), **workload.sizes} for workload in self.problem.workloads]
        return {name for name in self.own_sizes() if len({sizes[name] for sizes in every}) > 1}

    def own_sizes(self) -> Mapping[str, SizeValue]:
        """Return the file's own sizes, by name."""
        return {name: slot.value for name, slot in self._slots.items()}

    def input_facts(self) -> Mapping[str, InputFacts]:
        """Return the properties that each input has under every seed, found at a small workload; by input name."""
        if self._facts is None:
            source = self.source(self.typical_workload())
            self._facts = self._ask("input_facts", source, reference_answers.input_facts)
        return self._facts

    def facts_of(self, workload: Workload) -> Mapping[str, InputFacts]:
        """Return the same with what is known of the indices and row pointers of this workload.

        A workload whose values cannot be drawn here, for their size, has only what the small one shows.
        """
        facts = self.input_facts()
        if workload.name not in self._places:
            try:
                found = self._ask("place_facts", self.source(workload), reference_answers.place_facts)
            except ProblemError:
                found = {}  # a bound from less knowledge is lower, and still a bound
            self._places[workload.name] = found
        places = self._places[workload.name]
        known = {name: replace(facts.get(name, InputFacts()), distinct=found["distinct"], first=found["first"],
                               last=found["last"]) for name, found in places.items()}  # fmt: skip
        return {**facts, **known}

    def typical_workload(self) -> Workload:
        """Return the largest small workload whose values are as given.

        Raises:
            ProblemError: the problem has no workloads.
        """
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

    def _drawing(self, workload: Workload, seed: int, *, derived: bool) -> Message:
        drawing = {"values": workload.values.value, "seed": seed, "derived": derived}
        return drawing | (self._traced_of(workload) if derived else {})

    def _traced_of(self, workload: Workload) -> Message:
        """Return what the file's process said of its graph, from which derived values are drawn: so that a fresh one
        need not trace, which takes it a second. A long graph it traces again."""
        source = self.source(workload)
        if source not in self._traced:
            self._traced[source] = {}
            with suppress(ProblemError):  # who needs it is told when it traces
                graph = self.graph(workload)
                if len(graph.nodes) <= _LONG_GRAPH:
                    self._traced[source] = {"traced": {"graph": asdict(graph)}}
        return self._traced[source]

    def _tolerance(self, output: TensorSpec, workload: Workload) -> Message:
        return asdict(self.problem.tolerance_for(output.dtype, output.name, workload))

    def _check_tolerance(self, signature: Signature) -> None:
        """Refuse a tolerance for an output that is none; raises ProblemError."""
        unknown = self.problem.find_unknown_output(signature)
        if unknown:
            known = ", ".join(output.name for output in signature.outputs)
            raise ProblemError(
                f"{self.problem.origin}: a tolerance is for {unknown!r}, which is no output (outputs: {known})."
            )

    def _ask(self, operation: str, source: str, read: Callable[[Message], T], **more: Any) -> T:  # noqa: ANN401 - JSON
        about = {"source": source, "origin": self.problem.origin, "file": self._file}
        payload = {"operation": operation, **about, **more}
        return ask_about_file(self._worker, payload, self._limits.seconds, read)


def file_key(problem: Problem) -> str:
    """Return the key of a problem's file: a reference worker runs different files in different processes."""
    return hashlib.sha256(f"{problem.origin}\0{problem.source}".encode()).hexdigest()


def start_worker(scratch: Path, limits: ReferenceLimits | None = None) -> Worker:
    """Start a worker for references whose files lie under `scratch`; its process begins with its first request.

    The first worker of this process takes a second or two, in which torch is imported; the others are forks of that.

    Files that do not trust each other can share it: each runs in a process of its own, one at a time.
    """
    limits = limits or ReferenceLimits()
    arguments = [str(scratch.absolute()), str(limits.memory_bytes)]
    return Worker(PROGRAM, arguments, name="the reference worker", makes_way=True, imports=[PROGRAM])


def ask_about_file(worker: Worker, payload: Message, seconds: float, read: Callable[[Message], T]) -> T:
    """Return what the worker answered, now or to the same question earlier (`kept_answers`), as `read` reads it.

    Raises:
        ProblemError, MachineError: as for `ask`; ProblemError also if the answer does not have its form.
    """
    kept = kept_answers.load(payload)
    answer = ask(worker, payload, seconds) if kept is None else kept
    found = reference_answers.read_answer(answer, payload["origin"], read)
    if kept is None:
        kept_answers.save(payload, answer)
    return found


def ask(worker: Worker, payload: Message, seconds: float) -> Message:
    """Send one request to a reference worker and return the answer.

    Raises:
        ProblemError: the file is at fault, or it ran past a limit.
        MachineError: the worker failed.
    """
    origin = payload["origin"]
    try:
        imports = () if payload["operation"] in _UNTRACED else (TRACED,)
        answer = worker.request(payload | {"seconds": seconds}, seconds + _GRACE_SECONDS, imports)
    except WorkerLimitError as error:
        raise ProblemError(
            f"{origin}: stopped: {payload['operation']} ran past {seconds:g} s or past the memory limit (an endless "
            f"loop, or sizes too large to run)."
        ) from error
    if "problem" in answer:
        raise ProblemError(reference_answers.text(answer["problem"]))
    if "machine" in answer:
        raise MachineError(reference_answers.text(answer["machine"]))
    return answer


def _digest(answer: Message) -> str:
    digest: str = answer["digest"]
    return digest


def _comparisons(answer: Message) -> tuple[Comparison, ...]:
    return tuple(comparison_from(c) for c in answer["comparisons"])


def comparison_from(data: Message) -> Comparison:
    """Read a comparison from a judge's JSON."""
    first = tuple(Mismatch(tuple(m["index"]), m["got"], m["want"]) for m in data["first"])
    heatmap = tuple(tuple(row) for row in data["heatmap"])
    return Comparison(**(data | {"shape": tuple(data["shape"]), "first": first, "heatmap": heatmap}))
