"""Find what an export into a library rests on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.expressions import ExpressionError, Scope, parse_expression
from cutegen_core.kernel.screening import blank_comments
from cutegen_core.problems import read
from cutegen_core.problems.lint.existing import alias_error
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem, Signature, TensorSpec, WorkloadRole
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.imports.plain_cu.source import Variable
from cutegen_core.share.imports.plain_cu.writing import HOST_MARK

_FACTORS = range(2, 9)


class Original(NamedTuple):
    """The file that the existing kernel came from, as given to the export."""

    name: str
    text: str


@dataclass(frozen=True)
class HostFunction:
    """The host function that an existing kernel was imported from.

    Attributes:
        head: return type, name and parameters as written.
        tensors: parameter -> tensor of the problem that it is, or the output that begins as it.
        numbers: parameter -> plan expression.
        copies: input -> output that the function writes over it.
        returned: outputs that it returns, in order.
    """

    file: str
    function: str
    scope: str
    head: str
    parameters: tuple[Variable, ...]
    tensors: Mapping[str, str]
    numbers: Mapping[str, str]
    copies: Mapping[str, str]
    returned: tuple[str, ...]

    @property
    def takes_tensors(self) -> bool:
        """Whether its parameters are torch's tensors, not raw pointers."""
        return any("Tensor" in parameter.type for parameter in self.parameters)


@dataclass(frozen=True)
class LibraryFacts:
    """A kernel with what an export into a library needs.

    Attributes:
        bundle: with `in_place` and open numbers.
        signatures: of every workload, by name; the benchmark's first.
        host: the original host function; None for a problem whose existing kernel was not imported.
    """

    bundle: Bundle
    signatures: Mapping[str, Signature]
    host: HostFunction | None
    original: Original | None = None

    @property
    def in_place(self) -> Mapping[str, str]:
        return self.bundle.in_place

    def made_outputs(self) -> tuple[TensorSpec, ...]:
        """Return the outputs that are tensors of their own."""
        return tuple(spec for spec in self.bundle.signature.outputs if spec.name not in self.in_place)

    def output_shape(self, output: TensorSpec) -> tuple[str, ...]:
        """Return the extents of an output as plan expressions over the inputs.

        Raises:
            UsageError: an extent is none of the inputs' on every workload.
        """
        found = []
        for axis in range(len(output.shape)):
            wanted = [signature.tensor(output.name).shape[axis] for signature in self.signatures.values()]
            text = next((c for c in self._candidates() if self.values(c) == wanted), None)
            if text is None:
                raise UsageError(
                    f"the shape of {output.name} (axis {axis}) follows from no input's shape on every workload, so an "
                    "operator cannot make that tensor"
                )
            found.append(text)
        return tuple(found)

    def _candidates(self) -> Iterator[str]:
        extents = [f"{t.name}.shape[{a}]" for t in self.bundle.signature.inputs for a in range(len(t.shape))]
        yield from extents
        first = {signature.outputs[0].shape for signature in self.signatures.values()}
        yield from (str(extent) for shape in sorted(first) for extent in shape)
        yield from (f"{extent} // {k}" for extent in extents for k in _FACTORS)
        yield from (f"{extent} * {k}" for extent in extents for k in _FACTORS)
        yield from (f"{a} * {b}" for i, a in enumerate(extents) for b in extents[i + 1 :])

    def values(self, text: str) -> list[float | None]:
        """Return what a plan expression is on every workload, None where it has no value."""
        return [_value(text, signature) for signature in self.signatures.values()]


def collect(bundle: Bundle, original: Original | None = None) -> LibraryFacts:
    """Return the facts of a kernel.

    Raises:
        UsageError: ALIAS names tensors that cannot replace one another.
        ProblemError, MachineError: the reference failed.
    """
    problem = bundle.problem
    host = read_host(problem.existing)
    alias = dict(read.alias(problem))
    for replaced, output in host.copies.items() if host else ():
        alias.setdefault(output, replaced)
    for output, replaced in alias.items():
        if wrong := alias_error(bundle.signature, output, replaced):
            raise UsageError(f"{problem.name}: ALIAS: {wrong}.")
    made = replace(bundle, in_place=alias, open_numbers=True)
    return LibraryFacts(made, signatures_of(problem), host, original)


def read_host(existing: str) -> HostFunction | None:
    """Read which host function a kernel file was imported from.

    Raises:
        UsageError: the line that names it cannot be read.
    """
    line = next((line for line in existing.splitlines() if line.startswith(HOST_MARK)), None)
    if line is None:
        return None
    try:
        facts = json.loads(line.removeprefix(HOST_MARK))
        return HostFunction(
            facts["file"], facts["function"], facts["scope"], facts["head"],
            tuple(Variable(*parameter) for parameter in facts["parameters"]),
            facts["tensors"], facts["numbers"], facts["copies"], tuple(facts["returned"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the existing kernel's line {HOST_MARK.strip()!r} cannot be read: {error}") from error


def signatures_of(problem: Problem) -> Mapping[str, Signature]:
    """Ask the reference for every workload's signature, a benchmark's first."""
    ordered = sorted(problem.workloads, key=lambda workload: workload.role is not WorkloadRole.BENCHMARK)
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-export-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        return {workload.name: reference.signature(workload) for workload in ordered}


def benchmark_sources(problem: Problem) -> Mapping[str, str]:
    """Return the reference's text with the sizes of each benchmark in place."""
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-export-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        timed = problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[:1]
        return {workload.name: reference.source(workload) for workload in timed}


def count_lines(text: str) -> int:
    """Count the lines of code, without blank lines and comments."""
    return sum(bool(line.strip()) for line in blank_comments(text).splitlines())


def _value(text: str, signature: Signature) -> float | None:
    scope = Scope({spec.name: spec for spec in signature.tensors}, dict(signature.scalars))
    try:
        return parse_expression(text).evaluate(scope)
    except ExpressionError:
        return None
