"""Begin runs of a candidate before their results are asked for, so that no processor waits for another's work.

A run's result depends on its arguments only. They are asked for in the order in which one processor would make them,
so verdicts and evidence come in that order, too, and the first failure is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from cutegen_core.execute.port import RunStop

Result = TypeVar("Result")


class RunsAhead(Generic[Result]):
    """Runs of one trial. Those begun first run first.

    Args:
        threads: how many run at a time.
        is_last: whether nothing is asked for after such a result, so that no run begins after it.
    """

    def __init__(self, threads: int, is_last: Callable[[Result], bool] = lambda _: False) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._is_last = is_last
        self._ended = False
        self._begun: dict[Hashable, Future[Result]] = {}
        self.stop = RunStop()

    def begin(self, key: Hashable, run: Callable[[], Result]) -> None:
        """Begin a run."""
        self._begun[key] = self._pool.submit(self._run, run)

    def result(self, key: Hashable, run: Callable[[], Result]) -> Result:
        """Return the result of the run that was begun under this key, or of `run`, made now."""
        begun = self._begun.pop(key, None)
        return begun.result() if begun else run()

    def drop(self) -> None:
        """Give up what nobody has asked for, and end what runs of it; return when nothing runs any more."""
        for future in self._begun.values():
            future.cancel()
        self.give_up()
        wait(self._begun.values())
        self.stop.close()
        self.stop = RunStop()
        self._begun.clear()
        self._ended = False

    def _run(self, run: Callable[[], Result]) -> Result:
        if self._ended:
            raise CancelledError
        result = run()
        self._ended = self._is_last(result)
        return result

    def give_up(self) -> None:
        """End what runs; from any thread. Who asks for a result gets CancelledError."""
        self.stop.set()

    def close(self) -> None:
        """Give up what nobody has asked for, and end the threads."""
        self.drop()
        self._pool.shutdown()
        self.stop.close()
