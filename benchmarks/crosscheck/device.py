"""The same cubins over the same inputs on a GPU; needs neither torch nor the emulator.

1. Every candidate runs twice, over different poison, in one runner process a candidate.
2. Wrong ones, and then as many right ones as the time allows, also run under compute-sanitizer.
3. Outputs that differ from the emulator's are kept for the report; a table says at once by how much.
What a results file has already is not run again.
"""

from __future__ import annotations

import base64
import json
import lzma
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.crosscheck.folder import DEVICE, NAN_POISON, OTHER_POISON, Folder, Ran, Record, Run, ended
from cutegen_core.execute.port import Built, Executed, Execution, Executor
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.records import as_json
from cutegen_core.records.errors import MachineError
from cutegen_core.records.problem import Signature, TensorSpec
from cutegen_core.records.trial import Status

_RUN_LIMIT_S = 3.0
NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class _Machine:
    """What `Executor.build` needs of a compile that was done elsewhere."""

    cubin: bytes
    lowered: Mapping[str, str] | None


@dataclass
class Results:
    """Records by name, and the outputs that are not the emulator's, by content."""

    device: str = ""
    found: dict[str, Record] = field(default_factory=dict)
    outputs: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Results:
        if not path.exists():
            return Results()
        data: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
        found = [as_json.load(Record, json.dumps(entry)) for entry in data["records"]]
        outputs = {key: base64.b64decode(text) for key, text in data["outputs"].items()}
        return Results(data["device"], {record.name: record for record in found}, outputs)

    def write(self, path: Path) -> None:
        outputs = {key: base64.b64encode(data).decode() for key, data in self.outputs.items()}
        entries = [as_json.to_plain(record) for record in self.found.values()]
        text = json.dumps({"device": self.device, "records": entries, "outputs": outputs})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(text.encode(), preset=6))


def measure(
    folder: Folder, results: Path, executor: Executor, say: Callable[[str], None], limit_s: float, only: str = ""
) -> Results:
    """Run what is not in `results` yet, for at most `limit_s` seconds, and write the file as it goes."""
    begun = time.monotonic()
    kept = Results.read(results)
    wanted = [record for record in folder.all() if record.cubin and only in record.name]
    fresh = [record for record in wanted if _stale(kept.found.get(record.name), record)]
    executor.prepare(say)
    for number, record in enumerate(fresh, 1):
        if time.monotonic() - begun > limit_s:
            say(f"stopped at the limit of {limit_s:g} s: {len(fresh) - number + 1} candidates are left")
            break
        kept.found[record.name] = _candidate(record, folder, kept, executor, checked=record.name.startswith("wrong/"))
        if number % 20 == 0:
            kept.write(results)
    for record in wanted:
        if time.monotonic() - begun > limit_s:
            break
        done = kept.found.get(record.name)
        if done and not done.refused and done.runs and done.runs[0].checked is None:
            kept.found[record.name] = _sanitized(done, record, folder, executor)
    kept.device = executor.describe()
    kept.write(results)
    say(f"{len(kept.found)} of {len(wanted)} candidates after {time.monotonic() - begun:.0f} s")
    return kept


def _stale(found: Record | None, record: Record) -> bool:
    """Tell whether the GPU has not seen this cubin with these inputs; another emulator changes neither."""
    if found is None or (found.refused and found.refused.kind == NO_VERDICT):
        return True
    given = [[run.inputs for run in each.runs] for each in (found, record)]
    return found.cubin != record.cubin or given[0] != given[1]


def _candidate(record: Record, folder: Folder, kept: Results, executor: Executor, *, checked: bool) -> Record:
    """Make all of a candidate's runs; a machine that fails is no verdict, and the next candidate may do better."""
    kernel = parse(record.source)
    empty = replace(record, source="", runs=(), refused=None)
    try:
        built = _build(record, kernel, folder, executor, checked=False)
        runs = []
        with executor.open(built) as execute:
            for run in record.runs:
                with _files(run, folder) as (inputs, scratch):
                    once = _Once(run, kernel, built, inputs, scratch)
                    first = once.ran(execute, NAN_POISON, kept)
                    second = first if first.status is Status.TIMEOUT else once.ran(execute, OTHER_POISON, kept)
                    runs.append(replace(run, checked=None, plain=first, again=_compared(first, second, kernel)))
        done = replace(empty, runs=tuple(runs))
        return _sanitized(done, record, folder, executor) if checked else done
    except MachineError as error:
        return replace(empty, refused=Ran(Status.RUNTIME_ERROR, str(error), NO_VERDICT))


def _compared(first: Ran, second: Ran, kernel: KernelFile) -> Ran:
    if second.status is Status.PASSED and second.outputs != first.outputs and kernel.numerics.deterministic:
        return replace(second, status=Status.NONDETERMINISTIC, message="two runs differ")
    return second


def _sanitized(done: Record, record: Record, folder: Folder, executor: Executor) -> Record:
    """Run the first workload, which is the smallest, under compute-sanitizer."""
    kernel, run = parse(record.source), record.runs[0]
    if done.runs[0].plain and done.runs[0].plain.status is Status.TIMEOUT:
        return done  # an endless kernel would use up every tool's limit
    built = _build(record, kernel, folder, executor, checked=True)
    try:
        with executor.open(built) as execute, _files(run, folder) as (inputs, scratch):
            ran = _Once(run, kernel, built, inputs, scratch).execute(execute, NAN_POISON)
    except MachineError as error:
        ran = Executed(Status.RUNTIME_ERROR, 0.0, f"{NO_VERDICT}: {error}")
    return replace(done, runs=(replace(done.runs[0], checked=ended(ran)), *done.runs[1:]))


def _build(record: Record, kernel: KernelFile, folder: Folder, executor: Executor, *, checked: bool) -> Built:
    machine = _Machine(folder.get(record.cubin), record.lowered)
    return executor.build(kernel, kernel.defaults(), lambda: machine, checked=checked)


@contextmanager
def _files(run: Run, folder: Folder) -> Iterator[tuple[Mapping[TensorSpec, Path], Path]]:
    with TemporaryDirectory(prefix="cutegen-crosscheck-") as scratch:
        inputs = {spec: Path(scratch) / f"{spec.name}.in" for spec in run.signature.inputs}
        for spec, path in inputs.items():
            path.write_bytes(folder.get(run.inputs[spec.name]))
        yield inputs, Path(scratch)


@dataclass(frozen=True)
class _Once:
    run: Run
    kernel: KernelFile
    built: Built
    inputs: Mapping[TensorSpec, Path]
    scratch: Path

    def ran(self, execute: Callable[[Execution], Executed], poison: int, kept: Results) -> Ran:
        ran = ended(self.execute(execute, poison))
        if ran.status is not Status.PASSED:
            return ran
        outputs = {spec.name: self._output(spec).read_bytes() for spec in self._signature.outputs}
        return replace(ran, outputs={name: self._keep(data, kept) for name, data in outputs.items()})

    def execute(self, execute: Callable[[Execution], Executed], poison: int) -> Executed:
        outputs = {spec: self._output(spec) for spec in self._signature.outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        plan = self.kernel.plan(self._signature, DEVICE, self.kernel.defaults(), self.run.workload)
        return execute(Execution(self.built, plan, self.inputs, outputs, poison, timeout_s=_RUN_LIMIT_S))

    @property
    def _signature(self) -> Signature:
        return self.run.signature

    def _output(self, spec: TensorSpec) -> Path:
        return self.scratch / f"{spec.name}.out"

    def _keep(self, data: bytes, kept: Results) -> str:
        """Keep the outputs; those that the emulator gave, too, are in the folder already."""
        key = Folder.key(data)
        emulated = self.run.plain.outputs.values() if self.run.plain else ()
        if key not in emulated:
            kept.outputs[key] = data
        return key
