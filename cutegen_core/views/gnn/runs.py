"""A run as it stands: settings, progress, epochs and result, read from its job."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records import as_json
from cutegen_core.records.errors import StoreError, UsageError
from cutegen_core.records.gnn import KERNEL_PREFIX, EpochReport, RunProgress, RunResult, RunSettings
from cutegen_core.records.gnn_fields import GENERATED
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store


class RunRow(NamedTuple):
    """A line of the list of runs; `error` says why a run cannot be read."""

    id: str
    title: str
    state: JobState
    created_at: float
    origin: str
    error: str


class RunView(NamedTuple):
    """One run.

    Attributes:
        epochs: of the run's own aggregation and mode; one that was done again after a kill counts as its last.
        others: those that a bench ran with other aggregations, or in the other mode.
    """

    job: Job
    settings: RunSettings
    progress: RunProgress | None
    epochs: tuple[EpochReport, ...]
    others: tuple[EpochReport, ...]
    result: RunResult | None

    @property
    def last(self) -> EpochReport | None:
        return self.epochs[-1] if self.epochs else None


def run_rows(store: Store) -> tuple[RunRow, ...]:
    """Return all runs, newest first."""
    found = (job for job in jobs.every(store) if job.kind is JobKind.GNN)
    return tuple(RunRow(job.id, job.title, job.state, job.created_at, job.origin, job.error) for job in found)


def run_view(store: Store, job_id: str) -> RunView:
    """Return the run; UsageError if there is none, StoreError if what is stored of it cannot be read."""
    job = jobs.get(store, job_id)
    if job.kind is not JobKind.GNN:
        raise UsageError(f"job {job_id} is no GNN run")
    settings = as_json.load(RunSettings, job.settings)
    progress = as_json.load(RunProgress, job.progress) if job.progress else None
    result = _result(store, job.result) if job.result else None
    return view_of(job, settings, _reports(store, job_id), progress=progress, result=result)


RUNS_KEPT = 64
_reported: OrderedDict[tuple[Store, str], tuple[EpochReport, ...]] = OrderedDict()
_lock = threading.Lock()
"""Held for looks into the cache only, never while SQLite reads."""


def _reports(store: Store, job: str) -> tuple[EpochReport, ...]:
    """Return the job's reports. They are only ever appended, so what was read once is kept: a page polls."""
    key = (store, job)
    with _lock:
        known = _reported.get(key, ())
    fresh = tuple(as_json.load(EpochReport, text) for text in jobs.reports(store, job, after=len(known)))
    found = _with_last_timelines(known + fresh) if fresh else known
    with _lock:
        if len(_reported.get(key, ())) <= len(found):
            _reported[key] = found
            _reported.move_to_end(key)
        while len(_reported) > RUNS_KEPT:
            _reported.popitem(last=False)
    return found


@lru_cache(maxsize=RUNS_KEPT)
def _result(store: Store, key: str) -> RunResult:
    found = store.record(RunResult, key)
    return replace(found, epochs=_with_last_timelines(found.epochs))


def _with_last_timelines(epochs: tuple[EpochReport, ...]) -> tuple[EpochReport, ...]:
    """Return the epochs with the timeline of the last one of each kind only: thousands of epochs have long ones."""
    last = {(one.aggregate, one.mode): number for number, one in enumerate(epochs) if one.timeline}
    shown = set(last.values())
    return tuple(
        one if number in shown or not one.timeline else replace(one, timeline=()) for number, one in enumerate(epochs)
    )


def view_of(
    job: Job, settings: RunSettings, epochs: Sequence[EpochReport], *, progress: RunProgress | None = None,
    result: RunResult | None = None,
) -> RunView:  # fmt: skip
    """Sort out the epochs of a run: its own, those that a bench compares, and of repeated ones the last."""
    reports = [*epochs, *(result.epochs if result else ())]
    once = {(one.trial, one.epoch, one.aggregate, one.mode): one for one in reports}
    ordered = sorted(once.values(), key=lambda one: (one.trial, one.epoch))
    own = tuple(one for one in ordered if _is_own(one, settings))
    others = tuple(one for one in ordered if not _is_own(one, settings))
    return RunView(job, settings, progress, own, others, result)


def _is_own(epoch: EpochReport, settings: RunSettings) -> bool:
    return epoch.aggregate in ("", settings.aggregate) and epoch.mode in (None, settings.mode)


def finished_runs(store: Store) -> tuple[RunView, ...]:
    """Return every run with a result that can be read."""
    found = []
    for job in jobs.every(store):
        if job.kind is JobKind.GNN and job.state is JobState.DONE:
            try:
                found.append(run_view(store, job.id))
            except StoreError:
                continue
    return tuple(found)


def run_title(settings: RunSettings) -> str:
    """Name a run by what tells it from others: "train sage on blocks 20,000, pipelined, spmm"."""
    graph = settings.graph
    source = f"{graph.source} {graph.nodes:,}" if graph.source in GENERATED else PurePath(graph.source).name
    aggregate = "" if settings.aggregate == RunSettings().aggregate else f", {settings.aggregate}"
    ranks = "" if settings.ranks == 1 else f", {settings.ranks} ranks"
    named = f"{settings.task} {settings.model} on {source}, {settings.mode}"
    return show_hidden(f"{named}, {settings.device}{aggregate}{ranks}")


def computed_on(view: RunView) -> str:
    """Say which device the figures are from."""
    settings = view.settings
    if settings.device.startswith("sleep:"):
        milliseconds = settings.device.partition(":")[2]
        return f"declared sleep of {milliseconds} ms per step, nothing computed"
    machine = view.result.machine if view.result else {}
    name = machine.get("device", "")
    if settings.device == "cpu":
        where = "the CPU of the machine that recorded it" if view.job.imported else "this CPU"
        kernel = ", the plugged kernel on the emulator" if settings.aggregate.startswith(KERNEL_PREFIX) else ""
        return f"computed on {where}{kernel}"
    ranks = f"{settings.ranks} x " if settings.ranks > 1 else ""
    return f"computed on {ranks}{name or 'the GPU'}"


def imported_words(view: RunView) -> str:
    """Say of an imported run where it comes from and that nothing ran here; "" for one of this workspace."""
    if not view.job.imported:
        return ""
    return f"This run was {view.job.origin}, {computed_on(view)}: nothing ran on this machine."


def figure_device(view: RunView) -> str:
    """Name in a few words the device that a figure is from, for a table."""
    settings, machine = view.settings, view.result.machine if view.result else {}
    if settings.device.startswith("sleep:"):
        return "declared sleep"
    if settings.device == "cpu":
        return "processor"
    return machine.get("device") or "GPU"
