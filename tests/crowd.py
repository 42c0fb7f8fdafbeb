"""Keep a process waiting, as a busy machine does that gives the processor to others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.patience import PATIENCE_S


@contextmanager
def crowded(seconds: float, parent: int = 0) -> Iterator[None]:
    """Stop the next child of a process, by default of this one, for some seconds of the clock, with all it started."""
    parent = parent or os.getpid()
    before = descendants(parent)
    waited = threading.Thread(target=_keep_waiting, args=(parent, before, seconds))
    waited.start()
    yield
    waited.join()


def _keep_waiting(parent: int, before: set[int], seconds: float) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (new := descendants(parent) - before) and time.monotonic() < deadline:
        time.sleep(0.0005)
    _signal(new, signal.SIGSTOP)
    if started := descendants(parent) - before - new:  # before it was stopped
        _signal(started, signal.SIGSTOP)
    time.sleep(seconds)
    _signal(new | started, signal.SIGCONT)


def _signal(processes: set[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def descendants(parent: int) -> set[int]:
    """Return the children of a process, their children, and so on."""
    found: set[int] = set()
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, task.read_text().split()):
                found |= {child} | descendants(child)
    return found
