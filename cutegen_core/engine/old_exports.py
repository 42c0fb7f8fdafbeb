"""Remove the files of exports that are older than `KEPT_DAYS`, or whose session is no longer in the store."""

from __future__ import annotations

import shutil
import time

from cutegen_core.records import as_json
from cutegen_core.records.errors import StoreError
from cutegen_core.records.export import KEPT_DAYS, ExportSettings
from cutegen_core.records.job import Job, JobKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store

EVERY_S = 3600.0
_DAY_S = 86_400.0


class OldExports:
    """Look for them at the engine's start, and once in `EVERY_S`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due = 0.0

    def look(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY_S
        remove(self._store, time.time())


def remove(store: Store, now: float) -> None:
    """Remove the folders of these exports; what is still being written stays. An error of the store is the caller's."""
    sessions = frozenset(store.sessions())
    for job in jobs.every(store, JobKind.EXPORT):
        if job.is_over and (now - job.ended_at > KEPT_DAYS * _DAY_S or _session(job) not in sessions):
            shutil.rmtree(jobs.place(job.id), ignore_errors=True)


def _session(job: Job) -> str:
    """Return the session; "" where another version wrote the settings."""
    try:
        return as_json.load(ExportSettings, job.settings).session
    except StoreError:
        return ""
