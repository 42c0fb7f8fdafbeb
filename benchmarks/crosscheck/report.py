"""Emulator against GPU, candidate by candidate: differences, verdicts, and whether they agree.

Right kernels agree when both executors pass them and every element lies within the tolerance stated for them; wrong
ones when both refuse them. What the emulator answers UNSUPPORTED is counted apart. The GPU's outputs are judged by the
same reference process that judged the emulator's, unless they are the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.conditions import RESULTS, write
from benchmarks.crosscheck import corpus
from benchmarks.crosscheck.closeness import Difference, difference
from benchmarks.crosscheck.corpus import Case
from benchmarks.crosscheck.device import NO_VERDICT, Results
from benchmarks.crosscheck.folder import SEED, Folder, Ran, Record, Run, verdict
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.records.trial import Status

AGREE, UNSUPPORTED, DISAGREE, NOT_RUN = "agree", "unsupported by the emulator", "DISAGREE", "not run on the GPU"
DIFFERS = "differs as documented"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        sanitizer: what compute-sanitizer said on the first workload, "" where it was not run.
        note: why the two differ, where that is known.
        differing: elements of `total` whose bits differ; `beyond` of them outside the tolerance.
    """

    name: str
    problem: str
    family: str
    workloads: tuple[str, ...]
    emulator: str
    gpu: str
    sanitizer: str
    agreement: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    differing: int = 0
    beyond: int = 0
    total: int = 0
    tolerance: str = ""
    note: str = ""


def report(folder: Folder, results: Path) -> tuple[Row, ...]:
    """Return the table, also written as results/crosscheck_h200.json and .md."""
    found = Results.read(results)
    rows = tuple(_rows(folder, found))
    counts = Counter(row.agreement for row in rows)
    summary = {
        "device": found.device, "candidates": len(rows), "agreement": dict(counts),
        "bitwise_equal": sum(row.total > 0 and row.differing == 0 for row in rows),
        "wrong_refused_by_both": sum(row.name.startswith("wrong/") and row.agreement == AGREE for row in rows),
        "tolerance": "per element: so many units in the last place, or that share of the largest |output|",
        "rows": [asdict(row) for row in rows],
    }  # fmt: skip
    write("crosscheck_h200", summary)
    (RESULTS / "crosscheck_h200.md").write_text(_markdown(rows, found.device, counts))
    return rows


def _rows(folder: Folder, found: Results) -> Iterator[Row]:
    with TemporaryDirectory(prefix="cutegen-crosscheck-") as scratch, ExitStack() as stack:
        worker = start_worker(Path(scratch))
        stack.callback(worker.close)
        for problem, group in groupby(corpus.cases(), key=lambda case: case.problem):
            kept = list(group)
            with Reference(corpus.problem_of(kept[0]), Path(scratch) / Path(problem).stem, worker=worker) as reference:
                for case in kept:
                    record = folder.load(case.name)
                    if record:
                        yield _row(case, record, found.found.get(case.name), folder, found.outputs, reference)


def _row(
    case: Case, record: Record, gpu: Record | None, folder: Folder, outputs: Mapping[str, bytes], reference: Reference
) -> Row:
    emulated = verdict(record)
    problem = Path(case.problem).stem
    workloads = tuple(run.workload for run in record.runs)
    row = Row(case.name, problem, case.family, workloads, _words(emulated), "", "", NOT_RUN, tolerance=_stated(case))
    if gpu is None or (gpu.refused and gpu.refused.kind == NO_VERDICT):
        return replace(row, gpu=gpu.refused.message if gpu and gpu.refused else "")
    judged = replace(gpu, runs=tuple(_judged(run, mine, outputs, reference) for run, mine in _pairs(gpu, record)))
    apart = [d for run, mine in _pairs(gpu, record) for d in _differences(case, run, mine, folder, outputs)]
    plain = verdict(replace(judged, runs=tuple(replace(run, checked=None) for run in judged.runs)))
    checked = judged.runs[0].checked
    row = replace(
        row, gpu=_words(plain), sanitizer=_words(checked) if checked else "", **_worst(apart),
    )  # fmt: skip
    agreement = _agreement(case, emulated, verdict(judged), row.beyond)
    known = corpus.DOCUMENTED.get(case.name, "")
    if agreement == DISAGREE and known:
        return replace(row, agreement=DIFFERS, note=known)
    return replace(row, agreement=agreement)


def _pairs(gpu: Record, record: Record) -> Iterator[tuple[Run, Run]]:
    mine = {run.workload: run for run in record.runs}
    return ((run, mine[run.workload]) for run in gpu.runs)


def _judged(run: Run, mine: Run, outputs: Mapping[str, bytes], reference: Reference) -> Run:
    """Return the GPU's run with the reference's comparison in it."""
    if run.plain is None or run.plain.status is not Status.PASSED:
        return run
    if mine.plain and mine.plain.outputs == run.plain.outputs:
        return replace(run, plain=replace(run.plain, status=mine.plain.status, message=mine.plain.message))
    workload = next(w for w in reference.problem.workloads if w.name == run.workload)
    reference.write_inputs(workload, SEED)
    specs = {spec: reference.scratch / f"{spec.name}.gpu" for spec in run.signature.outputs}
    for spec, path in specs.items():
        path.write_bytes(outputs[run.plain.outputs[spec.name]])
    wrong = next((c for c in reference.compare(workload, SEED, specs) if c.wrong), None)
    if wrong is None:
        return run
    message = f"{wrong.wrong} of {wrong.total} elements of {wrong.output} are wrong; {wrong.pattern}"
    return replace(run, plain=replace(run.plain, status=Status.INCORRECT_NUMERICAL, message=message))


def _differences(case: Case, run: Run, mine: Run, folder: Folder, outputs: Mapping[str, bytes]) -> Iterator[Difference]:
    if not (run.plain and run.plain.outputs and mine.plain and mine.plain.outputs):
        return
    for spec in run.signature.outputs:
        there, here = run.plain.outputs[spec.name], mine.plain.outputs[spec.name]
        data = folder.get(here)
        yield difference(data if there == here else outputs[there], data, spec, case.closeness)


def _worst(apart: list[Difference]) -> dict[str, Any]:
    if not apart:
        return {}
    names = ("max_abs", "max_rel", "max_ulp")
    largest = {name: max(getattr(d, name) for d in apart) for name in names}
    return largest | {name: sum(getattr(d, name) for d in apart) for name in ("differing", "beyond", "total")}


def _agreement(case: Case, emulated: Ran, gpu: Ran, beyond: int) -> str:
    refused_here, refused_there = emulated.status is not Status.PASSED, gpu.status is not Status.PASSED
    if emulated.status is Status.UNSUPPORTED and bool(case.defect) == refused_there:
        return UNSUPPORTED
    if case.defect:
        return AGREE if refused_here and refused_there else DISAGREE
    return DISAGREE if refused_here or refused_there or beyond else AGREE


def _words(ran: Ran) -> str:
    return f"{ran.status} ({ran.kind})" if ran.kind else str(ran.status)


def _stated(case: Case) -> str:
    ulp, scale, _ = case.closeness
    if not ulp and not scale:
        return "same bits"
    return f"{ulp:g} ulp" + (f" or {scale:g} of the largest" if scale else "")


def _markdown(rows: tuple[Row, ...], device: str, counts: Counter[str]) -> str:
    agreed = ", ".join(f"{count} {word}" for word, count in counts.items())
    head = (
        "# The emulator against a GPU\n\n"
        f"The same {len(rows)} candidates and inputs on the CPU emulator and on {device}: {agreed}.\n"
        "Differences are element by element over all workloads of a candidate; `python -m benchmarks.crosscheck` makes "
        "this table.\n\n"
        "| problem | kernel | class | max difference | relative | ulp | bits differ | tolerance | emulator | GPU | "
        "sanitizer | agreement |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    notes = "".join(f"\n{row.name}: {row.note}.\n" for row in rows if row.note)
    return head + "".join(_line(row) for row in rows) + notes


def _line(row: Row) -> str:
    measured = f"{row.max_abs:.2g} | {row.max_rel:.1g} | {row.max_ulp:.3g} | {row.differing} of {row.total}"
    if not row.total:
        measured = "- | - | - | -"
    kernel = row.name.removeprefix(f"{row.problem}/")
    verdicts = f"{row.emulator} | {row.gpu} | {row.sanitizer} | {row.agreement}"
    return f"| {row.problem} | {kernel} | {row.family} | {measured} | {row.tolerance} | {verdicts} |\n"
