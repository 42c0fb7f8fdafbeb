"""The same pages while two sessions compile: each edits one kernel by hand again and again, its source new every time,
so that compilers and emulator never rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser

from benchmarks.page_speed import watch, windows
from benchmarks.page_speed.decisions import decisions
from benchmarks.page_speed.viewers import step
from benchmarks.page_speed.watch import Sign
from cutegen_core.problems import library
from cutegen_core.records.event import AnsweredBy, StageStarted
from cutegen_core.records.trial import ExecutorKind, Stage
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store

PROBLEMS = ("relu", "relu")


def under_load(started: Browser, url: str, store: Store, session: str, rounds: int, visits: int) -> dict[str, Any]:
    """Time decisions of a third session, and the address of `session` in a browser that has loaded nothing yet."""
    signs = (Sign(".st-key-code-pane", "\\w"), Sign(".st-key-evidence-body", "\\w"))
    with compiling(store) as busy:
        decided = decisions(started, url, store, rounds=rounds)
        opened = []
        for _ in range(visits):
            with windows.tabs(started) as [page]:
                opened.append(watch.opened(page, f"{url}/session?id={session}", signs))
    compiles = sum(
        isinstance(r.event, StageStarted) and r.event.stage is Stage.COMPILE for s in busy for r in store.events(s)
    )
    return {"sessions_compiling": len(busy), "trials_of_these_meanwhile": compiles, "decisions": decided,
            "cold_address_in_a_fresh_browser": watch.spread(opened)}  # fmt: skip


@contextmanager
def compiling(store: Store) -> Iterator[list[str]]:
    """Keep sessions at work until the context is left; each has finished a step before it is entered."""
    sessions = [
        start.create(store, library.load(name), answered_by=AnsweredBy.PERSON, executor=ExecutorKind.CPU,
                     max_steps=1000) for name in PROBLEMS
    ]  # fmt: skip
    for session in sessions:
        step(store, session)
    enough = threading.Event()
    failed: list[BaseException] = []

    def work(session: str) -> None:
        try:
            while not enough.is_set():
                step(store, session)
        except SystemExit as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    try:
        yield sessions
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
