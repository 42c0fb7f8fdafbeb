"""Run network work so that the caller can stop it within a second, whatever it is waiting for.

1. The work is a coroutine on an event loop in its own thread: cancelling it closes its sockets, whether it connects,
   waits for data or pauses between attempts.
2. The calling thread passes on arriving texts and calls `stopped` ten times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Emit = Callable[[str], None]

_POLL_S = 0.1
_GOODBYE_S = 0.6


class StoppedWorkError(Exception):
    """`stopped` returned True; the work was cancelled."""


def run(work: Callable[[Emit], Coroutine[Any, Any, T]], *, progress: Emit, stopped: Callable[[], bool]) -> T:
    """Run the work and return its result, or raise its exception; an exception from `progress` also cancels it.

    Raises:
        StoppedWorkError: `stopped` returned True.
    """
    thread = _Thread(work)
    try:
        while not thread.done():
            text = thread.texts(_POLL_S)
            if text:
                progress(text)
            if stopped():
                raise StoppedWorkError
        rest = thread.texts(0)
        if rest:
            progress(rest)
    finally:
        thread.cancel()
    try:
        return thread.result.result(0)
    except CancelledError:
        raise StoppedWorkError from None


class _Thread(Generic[T]):
    """Event loop in a daemon thread, so that a hanging name lookup cannot keep the process alive."""

    def __init__(self, work: Callable[[Emit], Coroutine[Any, Any, T]]) -> None:
        self.result: Future[T] = Future()
        self._texts: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work(self._texts.put))
        self._thread = threading.Thread(target=self._run, name="model-call", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        return self.result.done()

    def texts(self, wait_s: float) -> str:
        """Return the texts that arrive within `wait_s` seconds, joined."""
        arrived: list[str] = []
        with contextlib.suppress(queue.Empty):
            arrived.append(self._texts.get(wait_s > 0, wait_s))
            while True:
                arrived.append(self._texts.get_nowait())
        return "".join(arrived)

    def cancel(self) -> None:
        """Cancel the work if it still runs, and wait briefly until its connections are closed."""
        deadline = time.monotonic() + _GOODBYE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # the loop may close in between
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(0.2)

    def _run(self) -> None:
        try:
            self.result.set_result(self._loop.run_until_complete(self._task))
        except asyncio.CancelledError:
            self.result.set_exception(CancelledError())
        except BaseException as error:  # noqa: BLE001 - thread boundary: the caller raises it
            self.result.set_exception(error)
        finally:
            self._texts.put("")
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
