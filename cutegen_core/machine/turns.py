"""A few places for work that keeps the processors busy: who comes first gets the next free one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_S = 0.2
"""How often who waits looks whether it should give up."""


class Turns:
    """So many pieces of work run at once; the others wait in the order in which they came."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._line: list[object] = []
        """Everybody, in the order of coming: the first `count` have a place."""
        self._moved = threading.Condition()

    @contextmanager
    def taken(self, waits: Callable[[int], None]) -> Iterator[None]:
        """Give a place for as long as the context lasts.

        Args:
            waits: called at first and then a few times a second while there is none, with the number of those before;
                what it raises ends the wait.
        """
        mine = object()
        with self._moved:
            self._line.append(mine)
        try:
            while before := self._before(mine):
                waits(before)
                with self._moved:
                    self._moved.wait_for(lambda: not self._before(mine), _LOOK_S)
            yield
        finally:
            with self._moved:
                self._line.remove(mine)
                self._moved.notify_all()

    def _before(self, mine: object) -> int:
        """Return how many are before this one and keep it waiting; 0 where it has a place."""
        at = self._line.index(mine)
        return at if at >= self._count else 0
