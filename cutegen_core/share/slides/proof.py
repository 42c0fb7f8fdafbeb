"""How a kernel was proven, in sentences that each rest on what its trial holds."""

from __future__ import annotations

from collections.abc import Iterable

from cutegen_core.records.trial import Correctness, Trial, WorkloadVerdict
from cutegen_core.records.wording import counted, micros
from cutegen_core.views import MARK_WORDS


def lines(trial: Trial | None, acceptance: Trial | None) -> tuple[str, ...]:
    """One sentence for each kind of run, of its acceptance where it passed one: it is the more thorough.

    Args:
        acceptance: the session's last acceptance test, which may be of another kernel.
    """
    failed = _failed_acceptance(trial, acceptance)
    own = acceptance and trial and acceptance.candidate == trial.candidate
    proven = acceptance if acceptance and own and acceptance.passed else trial
    if proven is None or proven.correctness is None or not proven.passed:
        return failed
    found = [*failed, *_runs(proven.correctness), *_time(proven)]
    if proven is acceptance:
        found.insert(0, "Accepted: all tests again, with fresh inputs")
    marks = trial.marks if trial else ()
    return (*found, *(f"{mark.replace('_', ' ').lower()}: {MARK_WORDS[mark]}" for mark in marks))


def _failed_acceptance(trial: Trial | None, acceptance: Trial | None) -> tuple[str, ...]:
    if acceptance is None or trial is None:
        return (f"The acceptance test failed: {acceptance.message}",) if acceptance and not acceptance.passed else ()
    own = acceptance.candidate == trial.candidate
    if acceptance.passed:
        return (f"It failed an acceptance test before: {trial.message}",) if own and not trial.passed else ()
    return (f"{'This' if own else 'Another'} kernel failed its acceptance test: {acceptance.message}",)


def _runs(correctness: Correctness) -> list[str]:
    runs, gpu = correctness.verdicts, correctness.executor == "gpu"
    checked, plain = (_workloads(runs, mode) for mode in ("checked", "plain"))
    where = "on the GPU" if gpu else "on the emulator"
    compared = [comparison for run in runs for comparison in run.comparisons]
    declared = "the reference at its declared precision (it cannot run in float64)"
    against = declared if any(c.no_float64 for c in compared) else "a float64 reference"
    found = [f"Right on {counted(len(plain), 'workload')} {where}, against {against}"]
    orders = {run.order for run in runs if run.mode == "plain" and run.order}
    if len(orders) > 1:
        found.append(f"The same bits under {counted(len(orders), 'thread order')}")
    if checked:
        who = "compute-sanitizer on" if gpu else "No bad access, race or barrier in instrumented runs on"
        found.append(f"{who} {counted(len(checked), 'workload')}{': nothing found' if gpu else ''}")
    return [*found, *_errors(runs)]


def _errors(runs: Iterable[WorkloadVerdict]) -> list[str]:
    compared = [(c, run) for run in runs for c in run.comparisons]
    if not compared:
        return []
    closest, run = max(compared, key=lambda pair: pair[0].error_ratio)
    largest = max(c.total for c, _ in compared)
    return [f"Largest error {100 * closest.error_ratio:.2g} % of what is allowed (workload {run.workload})",
            f"Up to {largest:,} elements compared in one run, none wrong"]  # fmt: skip


def _time(trial: Trial) -> list[str]:
    workload = trial.performance.first if trial.performance else None
    if workload is None or workload.remeasured_us is None:
        return []
    return [f"Timed again in a fresh process: {micros(workload.remeasured_us)}"]


def _workloads(runs: Iterable[WorkloadVerdict], mode: str) -> set[str]:
    return {run.workload for run in runs if run.mode == mode}
