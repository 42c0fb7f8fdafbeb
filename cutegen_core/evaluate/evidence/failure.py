"""Word why a trial failed: messages about the file, what the instrumented run found, wrong outputs, the failing run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cutegen_core.evaluate.evidence import cost
from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.problem import SPECIAL_VALUES
from cutegen_core.records.trial import (
    Comparison,
    Diagnostic,
    Finding,
    Mismatch,
    Stage,
    Status,
    Trial,
    WorkloadVerdict,
)
from cutegen_core.records.wording import listed, percent, times

_WITHOUT_SPECIALS = (
    'a problem without NaN and infinities says so in its file (ALLOW = ("finite_math",)), and none are tried then'
)
_TONES = {"error": Tone.BAD, "warning": Tone.DOUBTFUL}


def cause(trial: Trial) -> tuple[Section, ...]:
    """Explain a failed verdict, the most telling section first; return nothing for a trial that passed."""
    if trial.passed:
        return ()
    sections: list[Section] = []
    if trial.failed_stage in (Stage.PATCH, Stage.COMPILE):
        sections += diagnostics(trial)
    if trial.status in (Status.LAUNCH_ERROR, Status.COMPILE_LIMIT):
        sections += cost.resources(trial.resources)
    failed = trial.correctness.first_failure if trial.correctness else None
    if failed:
        sections += [*_findings(failed), *_outputs(failed), _run(failed, trial)]
    return tuple(sections)


def diagnostics(trial: Trial) -> tuple[Section, ...]:
    """List the messages about the kernel file; the notes of a message are folded below it."""
    if not trial.diagnostics:
        return ()
    remarks = tuple(_diagnostic(found) for found in trial.diagnostics)
    columns = ("line", "severity", "from", "message")
    return (Section(Topic.DIAGNOSTICS, "Diagnostics", remarks, columns=columns, numbers_from=9),)


def _diagnostic(found: Diagnostic) -> Remark:
    where = f"line {found.line}: " if found.line else ""
    return Remark(
        f"{where}{found.severity}: {found.message} ({found.tool})",
        _TONES.get(found.severity, Tone.ASIDE),
        found.line,
        (str(found.line or "-"), found.severity, found.tool, found.message),
        found.notes,
    )


def _findings(run: WorkloadVerdict) -> tuple[Section, ...]:
    if not run.findings:
        return ()
    remarks = tuple(describe_finding(found) for found in run.findings)
    columns = ("kind", "variable", "line", "block", "thread", "what")
    title = "Found by the instrumented run" if run.mode == "checked" else "Found by the run"
    return (Section(Topic.FINDINGS, title, remarks, run.workload, columns, numbers_from=9),)


def describe_finding(found: Finding, tone: Tone = Tone.BAD) -> Remark:
    """Name a finding and its place: "race on partial at line 26, block (0, 0, 0), thread (32, 0, 0): ..."."""
    places = [f"{name} {at}" for name, at in (("block", found.block), ("thread", found.thread)) if at]
    what = f"{found.kind}{f' on {found.variable}' if found.variable else ''}"
    where = ", ".join([what + (f" at line {found.line}" if found.line else ""), *places])
    return Remark(
        f"{where}: {found.message}",
        tone,
        found.line,
        (found.kind, found.variable or "-", str(found.line or "-"), _place(found.block), _place(found.thread),
         found.message),
    )  # fmt: skip


def _place(coordinates: tuple[int, int, int] | None) -> str:
    return str(coordinates) if coordinates else "-"


def _outputs(run: WorkloadVerdict) -> Iterator[Section]:
    """Describe every wrong output: the pattern of the errors, how many, how large, and the first ones."""
    for compared in run.comparisons:
        if compared.wrong:
            title = f"Output {compared.output} {list(compared.shape)} of workload {run.workload}"
            remarks = tuple(_errors(compared))
            yield Section(Topic.OUTPUT, title, remarks, compared.output, ("index", "got", "want"))


def _errors(compared: Comparison) -> Iterator[Remark]:
    if compared.pattern:
        yield Remark(compared.pattern, Tone.PATTERN)
    share = percent(compared.wrong / max(1, compared.total))
    yield Remark(f"{compared.wrong} of {compared.total} elements of {compared.output} are wrong ({share})")
    yield Remark(_size_of_error(compared))
    counts = {"NaN": compared.nan, "Inf": compared.inf, "never written": compared.poison}
    if any(counts.values()):
        yield Remark(", ".join(f"{name}: {count}" for name, count in counts.items() if count))
    if compared.no_float64:
        yield Remark(f"compared at the reference's own precision: {compared.no_float64}", Tone.ASIDE)
    for number, element in enumerate(compared.first):
        yield _mismatch(element, "" if number else "first ")


def _size_of_error(compared: Comparison) -> str:
    allowed = f", {times(compared.error_ratio)} the tolerance" if math.isfinite(compared.error_ratio) else ""
    own = f"reference error {compared.reference_error:.2g}"
    return f"largest error {compared.max_abs_error:.3g}{allowed}; {own}"


def _mismatch(element: Mismatch, ordinal: str) -> Remark:
    index, (got, want) = str(list(element.index)), element.texts
    return Remark(f"{ordinal}at {index}: got {got}, want {want}", cells=(index, got, want))


def _run(failed: WorkloadVerdict, trial: Trial) -> Section:
    """Say which run failed, so that it can be repeated, and which workloads passed before it."""
    remarks = [Remark(run_text(failed))]
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    passed = dict.fromkeys(v.workload for v in verdicts if v.status is Status.PASSED)
    if passed:
        remarks.append(Remark(f"passed before it: {listed(passed)}", Tone.ASIDE))
    if failed.workload.endswith(tuple(f", {values.value} values" for values in SPECIAL_VALUES)):
        remarks.append(Remark(_WITHOUT_SPECIALS, Tone.ASIDE))
    return Section(Topic.RUN, "The failing run", tuple(remarks), failed.workload)


def run_text(run: WorkloadVerdict) -> str:
    """Name a run: "workload ragged, instrumented run, thread order random, seed 99"."""
    return f"workload {run.workload}, {mode_text(run)} run{order_text(run)}, seed {run.seed}"


def mode_text(run: WorkloadVerdict) -> str:
    """Name how a candidate was run: "instrumented", "plain" or "timed"."""
    return "instrumented" if run.mode == "checked" else run.mode


def order_text(run: WorkloadVerdict) -> str:
    """Name the thread order of the emulator; a GPU has none."""
    return f", thread order {run.order}" if run.order else ""
