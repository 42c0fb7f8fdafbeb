"""Compile servers of one architecture: as many as are asked at the same time, each compiles one candidate at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutegen_core.machine.worker import Worker

MOST_SERVERS = 8
_BYTES_EACH = 4 << 30
"""Memory that a server and the fork that compiles a tensor-core kernel may need."""


def count_servers() -> int:
    """Return how many servers this machine bears: half its processors, since pages and executors need some, too."""
    return max(1, min(MOST_SERVERS, len(os.sched_getaffinity(0)) // 2, _memory_bytes() // (2 * _BYTES_EACH)))


def has_room_to_prepare() -> bool:
    """Tell whether the machine bears a fork that compiles for an edit that may come, beside all that is asked for."""
    return len(os.sched_getaffinity(0)) >= MOST_SERVERS and _memory_bytes() >= 2 * MOST_SERVERS * _BYTES_EACH


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class ServerPool:
    """Servers for many threads. A server's process is started by the first request that finds the others busy.

    Args:
        make: makes the server of a number.

    Attributes:
        first: the server of every compile that does not come while another runs.
    """

    def __init__(self, make: Callable[[int], Worker], most: int) -> None:
        self._servers = [make(number) for number in range(most)]
        self.first = self._servers[0]
        self._idle = set(range(most))
        self._changed = threading.Condition()

    @contextmanager
    def taken(self) -> Iterator[Worker]:
        """Give a server for as long as the context lasts; wait while all are busy."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle)
            number = min(self._idle)
            self._idle.remove(number)
        try:
            yield self._servers[number]
        finally:
            with self._changed:
                self._idle.add(number)
                self._changed.notify_all()

    def close(self) -> None:
        """End all servers once they are idle; a later request starts them again."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) == len(self._servers))
            for server in self._servers:
                server.close()
