"""Let threads that ask for the same thing at the same time share one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Together(Generic[Answer]):
    """Requests that are being answered, by their key; nothing is kept once a request has its answer."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, Future[Answer]] = {}
        self._lock = threading.Lock()

    def ask(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """Return what `make` returns, or raise what it raises; a call that is under way for this key answers, too."""
        with self._lock:
            future = self._asked.get(key)
            if future is None:
                mine = self._asked[key] = Future()
        if future is not None:
            return future.result()
        try:
            mine.set_result(make())
        except BaseException as error:  # noqa: BLE001 - for those that wait: whatever ends this call ends theirs
            mine.set_exception(error)
        finally:
            with self._lock:
                del self._asked[key]
        return mine.result()
