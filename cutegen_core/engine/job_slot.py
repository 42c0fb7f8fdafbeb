"""Run the jobs of a kind, a few at a time, each as a child process, and take over what a killed engine left."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.engine.job_process import BoundedLog, JobProcess, LineTooLongError
from cutegen_core.machine import priority, workspace
from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchProgress, BenchResult, BenchRow, BenchSettings
from cutegen_core.records.errors import StoreError
from cutegen_core.records.export import ExportProgress, ExportResult, ExportSettings
from cutegen_core.records.gnn import EpochReport, RunProgress, RunResult, RunSettings, Task
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store

TICK_S = 0.1
PROGRESS_S = 0.5
"""The store gets a progress line at most so often."""
STOP_S = 10.0
"""Seconds to finish after SIGTERM; then it is killed."""
_STORE_PAUSE_S = 1.0
_LONGEST_BAD_LINE = 200

KILLED = "Its process was killed from outside, or the machine ran out of memory. The log has what it said last."

_log = logging.getLogger(__name__)


class JobProgram(NamedTuple):
    """What runs a kind of job.

    Attributes:
        module: started as `python -m MODULE --settings FILE`.
        prepare: fills in the settings, given the job's folder.
        resumes: whether a run with these settings goes on from a checkpoint.
        cut_short: what a person reads of one that does not, and whose engine was ended.
        makes_way: the pages and the engine come first, since nothing that it does is timed.
    """

    module: str
    settings: type[Any]
    progress: type[Any]
    report: type[Any]
    result: type[Any]
    prepare: Callable[[Any, Path], Any]
    resumes: Callable[[Any], bool]
    cut_short: str
    makes_way: bool


def _keeps_checkpoints(settings: RunSettings) -> bool:
    """Return whether the run learns something; a declared sleep does not."""
    return settings.task is Task.TRAIN and not settings.device.startswith("sleep:")


def _with_checkpoint(settings: RunSettings, folder: Path) -> RunSettings:
    """Give a training a folder for checkpoints, so that an engine that is killed loses no finished epoch."""
    if not _keeps_checkpoints(settings) or settings.checkpoint:
        return settings
    return replace(settings, checkpoint=str(folder / "checkpoint"))


PROGRAMS: dict[JobKind, JobProgram] = {
    JobKind.GNN: JobProgram(
        "cutegen_core.workloads.gnn", RunSettings, RunProgress, EpochReport, RunResult,
        _with_checkpoint, _keeps_checkpoints,
        "The engine was ended while this ran, before an epoch was finished. Run it again.", False,
    ),
    JobKind.EXPORT: JobProgram(
        "cutegen_core.share.exporting", ExportSettings, ExportProgress, ExportProgress, ExportResult,
        lambda settings, _: settings, lambda _: False,
        "The engine was ended while the file was written; nothing of it is left. Create it again.", True,
    ),
    JobKind.BENCH: JobProgram(
        "cutegen_core.session.benching", BenchSettings, BenchProgress, BenchRow, BenchResult,
        lambda settings, folder: replace(settings, job=folder.name), lambda _: True,
        "The engine was ended before another problem was done. Go on with it.", False,
    ),
}  # fmt: skip


def _resumes(job: Job) -> bool:
    """Return whether the job goes on from a checkpoint; not if another version wrote its settings."""
    program = PROGRAMS[job.kind]
    try:
        return program.resumes(as_json.load(program.settings, job.settings))
    except StoreError:
        return False


class JobSlots:
    """Hand waiting jobs of a kind to threads, at most `count` at a time. `dispatch` is called in a loop."""

    def __init__(self, store: Store, kind: JobKind, count: int) -> None:
        self._store, self._kind, self._count = store, kind, count
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._taken_over = False

    @property
    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def dispatch(self) -> None:
        """Start the next jobs where fewer run than may. An error of the store is the caller's; nothing is lost."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= self._count or self._closing.is_set():
            return
        if not self._taken_over:
            self._take_over()
            self._taken_over = True
        job = jobs.next_waiting(self._store, self._kind)
        if job is not None and jobs.start(self._store, job.id):
            thread = threading.Thread(target=self._run, args=(job,), name=f"job {job.id}")
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the running job's process. It stays RUNNING in the store, so the next engine takes it over."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _take_over(self) -> None:
        """Let what a killed engine left wait again if it goes on from a checkpoint, else mark it.

        One that had finished no epoch is not tried again: it may be what brought the engine down.
        """
        for job in jobs.running(self._store, self._kind):
            jobs.remove_partial(job.id)
            if jobs.stop_wanted(self._store, job.id):
                jobs.end(self._store, job.id, JobState.STOPPED)
            elif _resumes(job) and jobs.reported_since_start(self._store, job.id):
                jobs.wait_again(self._store, job.id)
            else:
                jobs.end(self._store, job.id, JobState.INTERRUPTED, error=PROGRAMS[job.kind].cut_short)

    def _run(self, job: Job) -> None:
        try:
            _JobRun(self._store, job, self._closing).follow()
        except Exception as error:  # noqa: BLE001 - thread boundary
            _log.exception("job %s", job.id)
            try:
                jobs.end(self._store, job.id, JobState.FAILED, error=f"{type(error).__name__}: {error}")
            except (sqlite3.Error, StoreError):
                _log.exception("job %s cannot be marked as failed", job.id)


class _JobRun:
    """One run of a job: what its process has sent and the store has not taken yet."""

    def __init__(self, store: Store, job: Job, closing: threading.Event) -> None:
        self._store, self._job, self._closing = store, job, closing
        self._program = PROGRAMS[job.kind]
        self._folder = jobs.folder(job.id)
        self._log = BoundedLog(self._folder / "log")
        self._progress, self._progress_due = "", 0.0
        self._reports: deque[str] = deque()
        self._result, self._error = "", ""
        self._stopping, self._kill_at = False, 0.0
        self._store_due = 0.0

    def follow(self) -> None:
        """Start the process, follow it to its end, and say in the store how that was."""
        settings = self._folder / "settings.json"
        prepared = self._program.prepare(as_json.load(self._program.settings, self._job.settings), self._folder)
        workspace.replace_file(settings, as_json.dump(prepared))
        try:
            self._log.note(f"started: {self._program.module}")
            with JobProcess(self._program.module, ["--settings", str(settings)], self._log) as process:
                if self._program.makes_way:
                    priority.make_way(process.pid)
                self._read(process)
                self._log.note(f"ended with exit code {process.code}")
                ended, error = self._outcome(process.code)
            self._finish(ended, error)
        finally:
            self._log.close()
            jobs.remove_partial(self._job.id)

    def _read(self, process: JobProcess) -> None:
        while not process.is_over():
            try:
                for line in process.lines(TICK_S):
                    self._take(line)
            except LineTooLongError:
                self._error = "Its process sent a line without an end, and was killed."
                process.kill()
            self._write()
            self._look_for_stop(process)

    def _take(self, line: bytes) -> None:
        """Keep what a line says; log one that says nothing known."""
        try:
            ((word, value),) = json.loads(line).items()
            if word == "progress":
                self._progress = self._checked(self._program.progress, value)
            elif word == "report":
                self._reports.append(self._checked(self._program.report, value))
            elif word == "result":
                self._result = self._checked(self._program.result, value)
            elif word == "error" and isinstance(value, str):
                self._error = value
            else:
                raise ValueError(f"{word!r} is no word of the protocol")
        except (ValueError, AttributeError, RecursionError, StoreError) as error:
            shown = line[:_LONGEST_BAD_LINE].decode(errors="replace")
            self._log.note(f"a line of its output was not understood ({error}): {shown}")

    @staticmethod
    def _checked(kind: type[Any], value: object) -> str:
        return as_json.dump(as_json.load(kind, json.dumps(value)))

    def _write(self) -> None:
        """Write what is due. While the disk is full or the store is busy, it is kept and tried again."""
        now = time.monotonic()
        if now < self._store_due:
            return
        try:
            while self._reports:
                jobs.add_report(self._store, self._job.id, self._reports[0])
                self._reports.popleft()
            if self._progress and now >= self._progress_due:
                jobs.set_progress(self._store, self._job.id, self._progress)
                self._progress, self._progress_due = "", now + PROGRESS_S
            self._store_due = 0.0
        except sqlite3.Error as error:
            self._pause(error)

    def _look_for_stop(self, process: JobProcess) -> None:
        """Ask the process to end once somebody wants that, and kill it when it does not."""
        if self._stopping:
            if time.monotonic() > self._kill_at:
                process.kill()
            return
        try:
            self._stopping = self._closing.is_set() or jobs.stop_wanted(self._store, self._job.id)
        except sqlite3.Error as error:
            self._pause(error)
        if self._stopping:
            self._log.note("asked to stop")
            self._kill_at = time.monotonic() + STOP_S
            process.ask_to_end()

    def _outcome(self, code: int) -> tuple[JobState, str]:
        """Return how the job ended, and for a person why."""
        if self._result and code == 0:
            return JobState.DONE, ""
        if self._stopping:
            return JobState.STOPPED, ""
        if self._error:
            return JobState.FAILED, self._error
        if code < 0 or code == 143:
            return JobState.INTERRUPTED, KILLED
        if code == 0:
            return JobState.FAILED, "Its process ended without a result. The log has what it said last."
        return JobState.FAILED, f"Its process failed with exit code {code}. It said last:\n{self._log.last_lines()}"

    def _finish(self, state: JobState, error: str) -> None:
        """Write the end; keep trying while the store fails, unless the engine leaves too."""
        self._progress_due = 0.0
        while True:
            self._write()
            try:
                if self._closing.is_set() and state is JobState.STOPPED:
                    return  # it was the engine that left: the next one takes it over
                if not self._reports:
                    result = self._store.put(self._result) if state is JobState.DONE else ""
                    jobs.end(self._store, self._job.id, state, result=result, error=error)
                    return
            except sqlite3.Error as trouble:
                self._pause(trouble)
            if self._closing.wait(_STORE_PAUSE_S):
                return

    def _pause(self, error: sqlite3.Error) -> None:
        if not self._store_due:
            _log.error("job %s: the store failed; trying again", self._job.id, exc_info=error)
        self._store_due = time.monotonic() + _STORE_PAUSE_S
