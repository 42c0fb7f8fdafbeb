"""Do work in the background of a process that may end at any time.

A process that ends waits for the threads of a `ThreadPoolExecutor` and for all the work they were given. These threads
end with it, and their workers' children with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def begin(name: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
    """Begin some work in a thread of its own, and return what will be its result."""
    begun: Future[T] = Future()
    begun.set_running_or_notify_cancel()

    def run() -> None:
        try:
            begun.set_result(work(*arguments, **named))
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: whoever asks for the result raises it
            begun.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return begun


class OneAfterAnother:
    """Does one piece of work at a time, in the order in which they come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._last: Future[Any] | None = None

    def begin(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Begin some work once what came before it is done."""
        with self._lock:
            before = self._last

            def after() -> T:
                if before is not None:
                    wait([before])
                return work(*arguments, **named)

            self._last = begun = begin(self._name, after)
        return begun
