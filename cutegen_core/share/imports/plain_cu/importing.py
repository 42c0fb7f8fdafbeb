"""Import a plain `.cu` for a problem."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.screening import screen
from cutegen_core.problems import read
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.problem import Problem, Signature, WorkloadRole
from cutegen_core.share.imports.plain_cu import matching, writing
from cutegen_core.share.imports.plain_cu.host_walk import HostWalk, find_entries, walk
from cutegen_core.share.imports.plain_cu.launches import RawLaunch
from cutegen_core.share.imports.plain_cu.matching import COLUMNS, NUMEL, ROWS
from cutegen_core.share.imports.plain_cu.source import CudaFunction, SourceFile, Variable, split_file
from cutegen_core.share.imports.plain_cu.values import HostBuffer, Number, Unread, Value
from cutegen_core.share.imports.plain_cu.writing import Hole

LONGEST = 128 << 10
"""Characters of a file that is imported; one with kernel and launcher has a tenth of that."""


@dataclass(frozen=True)
class ImportedKernel:
    """A kernel file that was made of a plain `.cu`.

    Attributes:
        text: the kernel file.
        function: the host function whose launches it has, "" if the file has none.
        holes: parts of the plan that must be completed by hand.
        notes: how each argument was matched, and what to look at.
    """

    text: str
    function: str
    holes: tuple[Hole, ...]
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return not self.holes


def import_kernel(
    text: str,
    file: str,
    problem: Problem,
    signatures: Mapping[str, Signature] | None = None,
    function: str = "",
) -> ImportedKernel:
    """Return the kernel file for a plain `.cu`.

    Args:
        file: its name, for messages and the kernel file's idea.
        signatures: of every workload; asked of the reference if not given.
        function: the host function to follow, where several launch kernels.

    Raises:
        UsageError: the file is a kernel file, has no kernels, or several host functions; with file and line.
        ProblemError, MachineError: the reference failed.
    """
    try:
        text = kernel_file.decode(text)
    except KernelFileError as error:
        where = f"{file}:{error.line}" if error.line else str(file)
        raise UsageError(f"{where}: {error.what}") from error
    if len(text) > LONGEST:
        raise UsageError(
            f"{file}: longer than {LONGEST >> 10} KiB: import the file that has the kernel, not all of it."
        )
    if text.lstrip().startswith("/* cutegen"):
        raise UsageError(f"{file}:1: this is a kernel file with a launch plan already; use it as it is.")
    try:
        source = split_file(file, text)
        if not source.kernels:
            raise UsageError(f"{file}: has no __global__ function, so there is nothing to launch.")
        known = signatures or signatures_of(problem)
        ordered = _ordered(problem, known)
        sizes = _sizes(problem, ordered)
        found = _follow(source, function, {*sizes, *ordered[0].scalars, *_usual_names()})
    except RecursionError as error:
        raise UsageError(f"{file}: brackets or blocks are nested too deeply to be followed.") from error
    made = matching.match(found, ordered, read.alias(problem))
    _prefer_sizes(made, sizes)
    return _write(found, made, ordered[0], problem)


def signatures_of(problem: Problem) -> Mapping[str, Signature]:
    """Ask the reference for the signature of every workload."""
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-import-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        return {workload.name: reference.signature(workload) for workload in problem.workloads}


def _ordered(problem: Problem, known: Mapping[str, Signature]) -> tuple[Signature, ...]:
    """Return the signatures, a benchmark's first."""
    timed = [w.name for w in problem.with_role(WorkloadRole.BENCHMARK)]
    return tuple(known[name] for name in sorted(known, key=lambda name: name not in timed))


def _sizes(problem: Problem, signatures: Sequence[Signature]) -> Mapping[str, str]:
    """Return the problem's own sizes by name, as expressions that hold on every workload."""
    own = {name: slot.value for name, slot in read.sizes_of(problem).items()}
    timed = sorted(problem.workloads, key=lambda w: w.role is not WorkloadRole.BENCHMARK)
    return matching.sizes_of_problem([{**own, **workload.sizes} for workload in timed], signatures)


def _prefer_sizes(made: matching.Matching, sizes: Mapping[str, str]) -> None:
    """Let a number that is called like a size of the problem be that size."""
    for name in (*made.numbers, *made.missing):
        if name in sizes:
            made.numbers[name] = sizes[name]
            made.missing = [missing for missing in made.missing if missing != name]
            made.notes = [note for note in made.notes if not note.startswith(f"{name} is ")]
            made.notes.append(f"{name} is {sizes[name]}: a size of the problem")


def _usual_names() -> set[str]:
    lower = NUMEL | ROWS | COLUMNS
    return {*lower, *(name.upper() for name in lower)}


def _follow(source: SourceFile, function: str, sizes: set[str]) -> HostWalk:
    entries = find_entries(source)
    if function:
        entries = tuple(host for host in source.hosts.values() if host.name == function)
        if not entries:
            listed = ", ".join(source.hosts) or "none"
            raise UsageError(f"{source.name}: has no host function {function!r} (functions: {listed}).")
    if len(entries) > 1:
        forward = [host for host in entries if host.name != "main" and "backward" not in host.name]
        entries = tuple(forward) if len(forward) == 1 else entries
    if len(entries) > 1:
        listed = ", ".join(f"{host.name} (line {source.line(host.at)})" for host in entries)
        raise UsageError(f"{source.name}: several host functions launch kernels: {listed}. Name the one to import.")
    found = walk(source, entries[0], sizes) if entries else HostWalk(source, None)
    if not found.launches:
        found.notes.append(
            "no launch statement could be read: each kernel has one launch, in the file's order"
            if entries else "the file has no host code: each kernel has one launch, in the file's order"
        )  # fmt: skip
        found.launches += [_unlaunched(source, kernel) for kernel in source.kernels.values()]
    return found


def _unlaunched(source: SourceFile, kernel: CudaFunction) -> RawLaunch:
    line = source.line(kernel.at)
    grid, block = (Unread(f"{what} of {kernel.name}", line) for what in ("grid", "block"))
    args = tuple(_given(parameter) for parameter in kernel.parameters)
    return RawLaunch(kernel, (), grid, block, Number("0"), args, line)


def _given(parameter: Variable) -> Value:
    return HostBuffer(parameter.name) if parameter.is_pointer else Number(f"‹#{parameter.name}›")


def _write(found: HostWalk, made: matching.Matching, signature: Signature, problem: Problem) -> ImportedKernel:
    writer = writing.PlanWriter(found, made, signature)
    plan = writer.toml(f"the existing kernel, imported from {found.source.name}")
    body = writing.device_code(found, writer.helpers(), plan)
    text = f"/* cutegen\n{plan}*/\n{writing.host_line(found, made)}{body}"
    unused = [t.name for t in signature.tensors if t.name not in {*made.tensors.values(), *made.copies}]
    left_out = (f"{written} is left out: what it declares must be in this file" for written in found.source.left_out)
    notes = [*found.notes, *left_out, *made.notes, *(f"nothing takes {name}" for name in unused)]
    try:
        refused = screen(kernel_file.parse(text))
    except KernelFileError as error:
        notes.append(f"the kernel file, {error}")
        refused = ()
    notes += [f"line {d.line} of the kernel file: {d.message}" for d in refused]
    function = found.entry.name if found.entry else ""
    return ImportedKernel(text, function, tuple(writer.holes), tuple(notes))
