"""Processes that are killed at one commit of the store, and what outlives them."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cutegen_core.trajectory.store import Store


class MortalStore(Store):
    """Kills its process before or after the commit of one transaction."""

    count, at, before = 0, 0, False

    @contextmanager
    def _transaction(self, *, durable: bool = True) -> Iterator[None]:
        with super()._transaction(durable=durable):
            self.count += 1
            mine = self.count
            yield
            if mine == self.at and self.before:
                os.kill(os.getpid(), signal.SIGKILL)
        if mine == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def make_mortal(store: Store, at: int, *, before: bool) -> None:
    """Let this store kill its process at its `at`-th transaction from now on, before or after the commit."""
    store.__class__ = MortalStore
    assert isinstance(store, MortalStore)
    store.at, store.before = at, before


def dies(work: Callable[[], None]) -> bool:
    """Do the work in a process of its own; return whether it was killed. It may not fail otherwise."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


class Diary:
    """What a person and a bill would remember, in a file that outlives the process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def note(self, **facts: object) -> None:
        with self.file.open("a") as stream:
            stream.write(json.dumps(facts) + "\n")
            stream.flush()

    def facts(self, name: str) -> list[object]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [fact[name] for fact in map(json.loads, lines) if name in fact]
