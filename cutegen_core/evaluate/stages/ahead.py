"""Begin runs of a candidate before their results are asked for, so that no processor waits for another's work.

A run's result depends on its arguments only. They are asked for in the order in which one processor would make them,
so verdicts and evidence come in that order, too, and the first failure is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

Result = TypeVar("Result")


class RunsAhead(Generic[Result]):
    """Runs of one trial. Those begun first run first.

    Args:
        threads: how many run at a time; 0 makes each when its result is asked for.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._begun: dict[Hashable, Future[Result]] = {}

    def begin(self, key: Hashable, run: Callable[[], Result]) -> None:
        """Begin a run."""
        if self._pool:
            self._begun[key] = self._pool.submit(run)

    def result(self, key: Hashable, run: Callable[[], Result]) -> Result:
        """Return the result of the run that was begun under this key, or of `run`, made now."""
        begun = self._begun.pop(key, None)
        return begun.result() if begun else run()

    def drop(self) -> None:
        """Give up what nobody has asked for; return when nothing runs any more."""
        for future in self._begun.values():
            future.cancel()
        wait(self._begun.values())
        self._begun.clear()

    def close(self) -> None:
        """Give up what nobody has asked for, and end the threads."""
        self.drop()
        if self._pool:
            self._pool.shutdown()
