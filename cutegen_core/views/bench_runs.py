"""Read a bench as it stands: its settings, how far it is, and how long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchProgress, BenchSettings
from cutegen_core.records.errors import UsageError
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views.benches import BenchLine, BenchOutcome


class BenchView(NamedTuple):
    """A bench.

    Attributes:
        running: the problems whose sessions run now.
    """

    job: Job
    settings: BenchSettings
    running: tuple[str, ...]

    @property
    def total(self) -> int:
        return len(self.settings.problems)


def bench_jobs(store: Store) -> tuple[Job, ...]:
    """Return all benches, newest first."""
    return jobs.every(store, JobKind.BENCH)


def bench_sessions(store: Store) -> frozenset[str]:
    """Return the sessions of all benches, of problems that are done."""
    sql = (
        "SELECT json_extract(r.payload, '$.session') FROM job_reports r JOIN jobs j ON j.id = r.job WHERE j.kind = ? "
        "AND json_valid(r.payload)"
    )
    return frozenset(row[0] for row in store.query(sql, (JobKind.BENCH,)) if row[0])


def bench_view(store: Store, job_id: str) -> BenchView:
    """Return the bench; UsageError if there is none."""
    job = jobs.get(store, job_id)
    if job.kind is not JobKind.BENCH:
        raise UsageError(f"job {job_id} is no bench")
    progress = as_json.load(BenchProgress, job.progress) if job.progress else None
    running = progress.running if progress and job.state is JobState.RUNNING else ()
    return BenchView(job, as_json.load(BenchSettings, job.settings), running)


def seconds_left(view: BenchView, lines: Sequence[BenchLine]) -> float | None:
    """Estimate the rest from the problems that have had a session; None before the first."""
    took = [line.seconds for line in lines if line.outcome is not BenchOutcome.NOT_LOADED]
    if not took or view.job.is_over:
        return None
    return (view.total - len(lines)) * sum(took) / len(took) / max(1, view.settings.at_once)
