"""Take a set of problems through sessions, in a process of its own.

The engine starts `python -m cutegen_core.session.benching --settings FILE` (`engine.job_slot`), and runs the sessions
that it creates. It prints lines of JSON: {"progress": ...}, {"report": ...} for each problem that is done, then
{"result": ...} or {"error": ...}. Asked to end (SIGTERM), it stops its sessions. Run again for the same job, it takes
the problems that have no report yet.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from cutegen_core.machine.workspace import replace_file
from cutegen_core.problems import library
from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchProgress, BenchResult, BenchRow, BenchSettings
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind
from cutegen_core.records.errors import CutegenError, StoreError
from cutegen_core.records.event import SessionState
from cutegen_core.records.problem import Problem
from cutegen_core.session import start
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.read import state_of, summary_of
from cutegen_core.trajectory.state import WORKING
from cutegen_core.trajectory.store import Store

_POLL_S = 0.1
_ENDED_EARLY = (SessionState.STOPPED, SessionState.INTERRUPTED)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=Path, required=True)
    settings = as_json.load(BenchSettings, parser.parse_args().settings.read_bytes())
    signal.signal(signal.SIGTERM, _end)
    begun = time.time()
    store = Store()
    try:
        done = _reported(store, settings.job)
        with library.Loader() as loader:
            _Bench(store, settings, loader).run([p for p in settings.problems if p not in done], len(done))
        jobs.say("result", BenchResult(len(settings.problems), time.time() - begun))
    except (CutegenError, sqlite3.Error, OSError) as error:
        jobs.say_error(f"the bench of {settings.set_name}: {error}")
        return 1
    finally:
        store.close()
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _no_end() -> Iterator[None]:
    """Let a request to end wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _reported(store: Store, job: str) -> set[str]:
    """Return the problems that an earlier run of the job has finished."""
    return {as_json.load(BenchRow, text).problem for text in jobs.reports(store, job)} if job else set()


def _titles(problems: Sequence[str]) -> dict[str, str]:
    """Return a name for each problem, files by their place in the folder that they share: "sub/2_rms"."""
    files = [name for name in problems if name.endswith(".py")]
    shared = os.path.commonpath([os.path.dirname(name) for name in files]) if files else ""
    return {
        name: os.path.relpath(name, shared).removesuffix(".py") if name.endswith(".py") else name for name in problems
    }


class _Running(NamedTuple):
    """A session in progress; `begun` is its start on the monotonic clock."""

    problem: str
    title: str
    session: str
    begun: float


class _Begun:
    """A file of the job's folder: problem -> session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sessions = _read_begun(path)

    def add(self, problem: str, session: str) -> None:
        self.sessions[problem] = session
        replace_file(self._path, json.dumps(self.sessions))


def _read_begun(path: Path) -> dict[str, str]:
    """Read the file; a damaged one names no session, and its problems begin anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {problem: session for problem, session in pairs if isinstance(session, str)}


class _Bench:
    """Keeps `at_once` sessions running until all problems are done."""

    def __init__(self, store: Store, settings: BenchSettings, loader: library.Loader) -> None:
        self._store, self._settings, self._loader = store, settings, loader
        self._titles = _titles(settings.problems)
        self._running: list[_Running] = []
        self._done = 0
        self._begun = _Begun(jobs.folder(settings.job) / "sessions.json") if settings.job else None

    def run(self, problems: list[str], done: int) -> None:
        """Take these problems; so many more of the set were done before."""
        self._done, total = done, done + len(problems)
        waiting = iter(problems)
        try:
            while self._fill(waiting):
                jobs.say("progress", BenchProgress(self._done, total, tuple(one.title for one in self._running)))
                self._wait()
        finally:
            for one in self._running:
                self._store.submit(one.session, Decision(DecisionKind.STOP))

    def _fill(self, waiting: Iterator[str]) -> bool:
        """Start sessions up to the limit, return whether any runs; a problem that does not load is reported at once."""
        while len(self._running) < self._settings.at_once and (name := next(waiting, None)) is not None:
            begun = time.monotonic()
            title = self._titles[name]
            try:
                problem = self._load(name)
            except CutegenError as error:
                self._report(BenchRow(name, title, "", str(error), time.monotonic() - begun))
                continue
            with _no_end():  # a session that is not among the running ones would not be stopped
                self._running.append(_Running(name, title, self._session(name, problem), begun))
        return bool(self._running)

    def _load(self, name: str) -> Problem:
        path = Path(name)
        return self._loader.load(path) if path.suffix == ".py" else library.load(name)

    def _session(self, name: str, problem: Problem) -> str:
        """Return the session that an earlier run of the job began and nobody stopped, else a new one."""
        begun = self._begun.sessions.get(name) if self._begun else None
        if begun and self._goes_on(begun, problem):
            return begun
        made = self._create(problem)
        if self._begun:
            self._begun.add(name, made)
        return made

    def _goes_on(self, session: str, problem: Problem) -> bool:
        """Return whether a session is still there, of this text of the file, and was not ended early."""
        try:
            state = state_of(self._store, session)
            before = self._store.record(Problem, state.settings.problem)
        except StoreError:
            return False
        return before.key == problem.key and state.status not in _ENDED_EARLY

    def _create(self, problem: Problem) -> str:
        asked = self._settings
        return start.create(
            self._store, problem, answered_by=asked.answered_by, strategy=asked.strategy, executor=asked.executor,
            autonomy=Autonomy.AUTO, max_steps=asked.max_steps, arch=asked.arch or None, model=asked.model,
            max_tokens=asked.max_tokens, tune=asked.tune, effort=asked.effort,
        )  # fmt: skip

    def _wait(self) -> None:
        """Wait until a session is over, and report those that are."""
        while all(self._works(one) for one in self._running):
            time.sleep(_POLL_S)
        for one in [one for one in self._running if not self._works(one)]:
            self._running.remove(one)
            self._report(BenchRow(one.problem, one.title, one.session, "", time.monotonic() - one.begun))

    def _works(self, one: _Running) -> bool:
        return summary_of(self._store, one.session).status in WORKING

    def _report(self, row: BenchRow) -> None:
        self._done += 1
        jobs.say("report", row)


if __name__ == "__main__":
    sys.exit(main())
