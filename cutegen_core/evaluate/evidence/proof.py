"""Word why a kernel counts as right: every run, what it was compared with, and the reservations about the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cutegen_core.evaluate.evidence.failure import describe_finding, mode_text, order_text, run_text
from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.trial import Correctness, ExecutorKind, Mark, Status, Trial, WorkloadVerdict
from cutegen_core.records.wording import counted, lowered, percent

MARK_WORDS: Mapping[Mark, str] = {
    Mark.NOT_TIMED: "there is no GPU, or the measurement failed",
    Mark.NOT_SANITIZED: "compute-sanitizer has not checked it yet; that happens before the kernel is accepted",
    Mark.UNSTABLE: "its median moved by more than 2 % in a fresh process: do not rely on this number",
    Mark.NO_FLOAT64: "the reference cannot run in float64: only atol and rtol were checked, at its own precision",
    Mark.SMALL_SIZES: "no run here came near the sizes of a benchmark: what only shows there is not known",
    Mark.WIDE_TOLERANCE: "the problem allows errors more than ten times the usual tolerance; its lint says why",
    Mark.CONFIRM: "more than 5 times faster than the fastest baseline: check it yourself before you promote it",
}
"""What each mark of a trial means."""
SERIOUS = (Mark.UNSTABLE, Mark.WIDE_TOLERANCE, Mark.CONFIRM)
"""Marks that a person should act on."""


def proof(trial: Trial) -> tuple[Section, ...]:
    """Say how a kernel that passed was proven; return nothing for one that failed."""
    if not trial.passed or trial.correctness is None:
        return ()
    return (Section(Topic.PROOF, "How it was proven", tuple(_proven(trial.correctness))),)


def runs_correct(correctness: Correctness) -> str:
    """Count the runs of a kernel that passed: "All 21 runs correct"."""
    runs = len(correctness.verdicts)
    return f"All {runs} runs correct" if runs > 1 else "The one run correct"


def _proven(correctness: Correctness) -> Iterable[Remark]:
    runs, on_gpu = correctness.verdicts, correctness.executor is ExecutorKind.GPU
    compared = [comparison for run in runs for comparison in run.comparisons]
    declared = "the reference at its declared precision (it cannot run in float64)"
    against = declared if any(c.no_float64 for c in compared) else "a float64 reference"
    where = "on the GPU" if on_gpu else "on the emulator"
    workloads = counted(len({run.workload for run in runs}), "workload")
    yield Remark(f"{runs_correct(correctness)} on {workloads} {where}, against {against}", Tone.GOOD)
    orders = {run.order for run in runs if run.mode == "plain" and run.order}
    if len(orders) > 1:
        yield Remark(f"The same bits under {counted(len(orders), 'thread order')}")
    checked = {run.workload for run in runs if run.mode == "checked"}
    if checked:
        who = "compute-sanitizer" if on_gpu else "Instrumented runs"
        yield Remark(f"{who} on {counted(len(checked), 'workload')}: no bad access, race or barrier")
    yield from _warnings(runs)
    yield from _largest_error(runs)
    yield from (Remark(sizes[:1].upper() + sizes[1:], Tone.ASIDE) for sizes in correctness.sizes)


def _warnings(runs: Iterable[WorkloadVerdict]) -> Iterable[Remark]:
    """Name once what runs that passed warned of."""
    found = {(one.kind, one.variable, one.line): one for run in runs for one in run.findings}
    for one in found.values():
        remark = describe_finding(one, Tone.DOUBTFUL)
        yield replace(remark, text=f"A warning: {remark.text}", cells=())


def _largest_error(runs: Iterable[WorkloadVerdict]) -> Iterable[Remark]:
    compared = [(comparison, run) for run in runs for comparison in run.comparisons]
    if compared:
        closest, run = max(compared, key=lambda pair: pair[0].error_ratio)
        yield Remark(f"Largest error {percent(closest.error_ratio)} of the tolerance (workload {run.workload})")
        widest, run = max(compared, key=lambda pair: pair[0].widening)
        if widest.wide:
            yield Remark(
                f"The problem allows {widest.widening:.2g} times the usual tolerance of {widest.output} (workload "
                f"{run.workload}); reference error {widest.reference_error:.2g}",
                Tone.DOUBTFUL,
            )
        largest = max(comparison.total for comparison, _ in compared)
        yield Remark(f"Up to {counted(largest, 'element')} compared in one run, none wrong")


def marks(trial: Trial) -> tuple[Section, ...]:
    """Explain the marks of a trial."""
    remarks = tuple(Remark(mark_text(mark), Tone.DOUBTFUL if mark in SERIOUS else Tone.ASIDE) for mark in trial.marks)
    return (Section(Topic.MARKS, "Marks", remarks),) if remarks else ()


def mark_text(mark: Mark) -> str:
    """Name a mark and what it means: "unstable: its median moved by ..."."""
    return f"{lowered(mark)}: {MARK_WORDS[mark]}"


def runs(trial: Trial) -> tuple[Section, ...]:
    """List every run with its verdict."""
    if trial.correctness is None:
        return ()
    columns = ("verdict", "workload", "run", "error / tolerance", "seed", "s")
    remarks = tuple(_run(run) for run in trial.correctness.verdicts)
    return (Section(Topic.RUNS, "Every run", remarks, columns=columns, numbers_from=3),)


def _run(run: WorkloadVerdict) -> Remark:
    passed = run.status is Status.PASSED
    ratio = max((c.error_ratio for c in run.comparisons), default=None)
    error = "" if ratio is None else f"{ratio:.3g}"
    told = f", error / tolerance {error}" if error else ""
    how = f"{mode_text(run)}{order_text(run)}"
    return Remark(
        f"{run_text(run)}: {lowered(run.status)}{told}, {run.seconds:.2f} s",
        Tone.GOOD if passed else Tone.BAD,
        cells=(lowered(run.status), run.workload, how, error, str(run.seed), f"{run.seconds:.2f}"),
    )
