"""Keep jobs in the store: the page and the command line create and stop them, the engine runs and updates them.

A job's state changes by single statements that name the state they change, so that a stop and an end cannot undo
each other. Reports (for training: one per epoch) are appended and durable on return; the latest progress replaces the
one before.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from cutegen_core.machine import workspace
from cutegen_core.records import as_json
from cutegen_core.records.errors import UsageError
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory.store import Store

LOG_TAIL_BYTES = 64 << 10
_COLUMNS = "id, kind, title, settings, state, progress, result, error, created_at, started_at, ended_at, origin"
_AGAIN = (JobState.STOPPED, JobState.INTERRUPTED, JobState.FAILED)


def create(store: Store, kind: JobKind, title: str, settings: str) -> str:
    """Create a job that waits for the engine; return its id."""
    return _insert(store, kind, title, settings, JobState.WAITING, "here", (time.time(), 0.0, 0.0))


def adopt(store: Store, job: Job, reports: Sequence[str]) -> str:
    """Create a finished job that ran elsewhere, at its own times; return its id."""
    times = (job.created_at, job.started_at, job.ended_at)
    made = _insert(store, job.kind, job.title, job.settings, job.state, job.origin, times)
    for report in reports:
        add_report(store, made, report)
    store.change("UPDATE jobs SET result = ?, error = ? WHERE id = ?", (job.result, job.error, made))
    return made


def _insert(
    store: Store, kind: JobKind, title: str, settings: str, state: JobState, origin: str, times: tuple[float, ...]
) -> str:
    job = uuid4().hex[:10]
    columns = "id, kind, title, settings, state, origin, created_at, started_at, ended_at"
    values = (job, kind, title, settings, state, origin, *times)
    store.change(f"INSERT INTO jobs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    return job


def every(store: Store, kind: JobKind = JobKind.GNN) -> tuple[Job, ...]:
    """Return all jobs of a kind, newest first."""
    rows = store.query(f"SELECT {_COLUMNS} FROM jobs WHERE kind = ? ORDER BY created_at DESC, id", (kind,))
    return tuple(_job(row) for row in rows)


def get(store: Store, job: str) -> Job:
    """Return the job; UsageError if there is none."""
    rows = store.query(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job,))
    if not rows:
        raise UsageError(f"no job {job!r} in this workspace")
    return _job(rows[0])


def find(store: Store, prefix: str, kind: JobKind = JobKind.GNN) -> str:
    """Return the job whose id starts with `prefix`; UsageError if there is none or several."""
    found = [job.id for job in every(store, kind) if job.id.startswith(prefix)] if prefix else []
    if len(found) != 1:
        raise UsageError(f"{'no' if not found else 'more than one'} job {prefix!r}")
    return found[0]


def reports(store: Store, job: str, after: int = 0) -> tuple[str, ...]:
    """Return what the job has reported, but for the first `after`, in order, each as JSON of its report record."""
    sql = "SELECT payload FROM job_reports WHERE job = ? AND number > ? ORDER BY number"
    rows = store.query(sql, (job, after))
    return tuple(row[0] for row in rows)


def request_stop(store: Store, job: str) -> None:
    """Stop the job: at once while it waits; else the engine ends its process. One that is over stays as it is."""
    store.change(
        "UPDATE jobs SET state = ?, ended_at = ?, stop = 1 WHERE id = ? AND state = ?",
        (JobState.STOPPED, time.time(), job, JobState.WAITING),
    )
    store.change("UPDATE jobs SET stop = 1 WHERE id = ? AND state = ?", (job, JobState.RUNNING))


def put_back(store: Store, job: str) -> bool:
    """Let a job that was stopped, interrupted or failed wait again; return False if it is none of these.

    Its process goes on from its checkpoint, where it has one.
    """
    marks = ", ".join("?" for _ in _AGAIN)
    changed = store.change(
        f"UPDATE jobs SET state = ?, stop = 0, error = '', ended_at = 0 WHERE id = ? AND state IN ({marks}) "
        "AND origin = 'here'",
        (JobState.WAITING, job, *_AGAIN),
    )
    return changed == 1


# ---- for the engine


def next_waiting(store: Store, kind: JobKind) -> Job | None:
    """Return the job of this kind that has waited longest."""
    rows = store.query(
        f"SELECT {_COLUMNS} FROM jobs WHERE state = ? AND kind = ? ORDER BY created_at, id LIMIT 1",
        (JobState.WAITING, kind),
    )
    return _job(rows[0]) if rows else None


def running(store: Store, kind: JobKind) -> tuple[Job, ...]:
    rows = store.query(f"SELECT {_COLUMNS} FROM jobs WHERE state = ? AND kind = ?", (JobState.RUNNING, kind))
    return tuple(_job(row) for row in rows)


def start(store: Store, job: str) -> bool:
    """Mark a waiting job as RUNNING; return False if it was stopped meanwhile."""
    sql = "UPDATE jobs SET state = ?, started_at = ?, progress = '' WHERE id = ? AND state = ?"
    return store.change(sql, (JobState.RUNNING, time.time(), job, JobState.WAITING)) == 1


def stop_wanted(store: Store, job: str) -> bool:
    return bool(store.query("SELECT stop FROM jobs WHERE id = ?", (job,))[0][0])


def set_progress(store: Store, job: str, progress: str) -> None:
    store.change("UPDATE jobs SET progress = ? WHERE id = ?", (progress, job))


def add_report(store: Store, job: str, report: str) -> None:
    store.change(
        "INSERT INTO job_reports SELECT ?, COALESCE(MAX(number), 0) + 1, ?, ? FROM job_reports WHERE job = ?",
        (job, time.time(), report, job),
    )


def reported_since_start(store: Store, job: str) -> bool:
    """Return whether the job has reported anything since it was started last."""
    sql = "SELECT 1 FROM job_reports r JOIN jobs j ON j.id = r.job WHERE j.id = ? AND r.at >= j.started_at LIMIT 1"
    return bool(store.query(sql, (job,)))


def end(store: Store, job: str, state: JobState, *, result: str = "", error: str = "") -> None:
    """End a running job; `result` is the key of a blob."""
    store.change(
        "UPDATE jobs SET state = ?, result = ?, error = ?, ended_at = ? WHERE id = ? AND state = ?",
        (state, result, error, time.time(), job, JobState.RUNNING),
    )


def wait_again(store: Store, job: str) -> None:
    """Let a running job whose engine was killed wait again."""
    store.change("UPDATE jobs SET state = ? WHERE id = ? AND state = ?", (JobState.WAITING, job, JobState.RUNNING))


# ---- for a job's process


def say(word: str, record: object) -> None:
    """Print a line for the engine: progress, a report, or the result."""
    print(json.dumps({word: as_json.to_plain(record)}), flush=True)


def say_error(text: str) -> None:
    """Print why the job ends without a result."""
    print(json.dumps({"error": text}), flush=True)


# ---- files of a job


def place(job: str) -> Path:
    """Return where the job's folder is, or would be."""
    return workspace.home() / "jobs" / job


def folder(job: str) -> Path:
    """Return the job's folder in the workspace, which holds its settings, its log and its checkpoints."""
    path = place(job)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def partial(job: str) -> Path:
    """Return the folder of what is not whole yet: the engine removes it when the job's process has ended, or when it
    takes over after an engine that was killed."""
    path = folder(job) / "partial"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def remove_partial(job: str) -> None:
    shutil.rmtree(place(job) / "partial", ignore_errors=True)


def log_of(job: str) -> str:
    """Return the end of the job's log; "" where it has none."""
    path = place(job) / "log"
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read(LOG_TAIL_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _job(row: tuple[Any, ...]) -> Job:
    job, kind, title, settings, state, *others = row
    return Job(job, JobKind(kind), title, settings, JobState(state), *others)
