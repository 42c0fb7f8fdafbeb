"""A sequence that never changes, of which a longer one is made in constant time.

A state is folded from thousands of events, and each makes a new state. With tuples, each would copy all steps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar, overload

T = TypeVar("T")

_growing = threading.Lock()


class Grown(Sequence[T]):
    """Items in order; compares equal to a tuple of the same items.

    All items but the last lie in a list that this shares with those it was made from, and with those made from it. Each
    sees as many of the list's first items as are its own; the list only grows.
    """

    __slots__ = ("_count", "_last", "_shared")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared: list[T] = list(items)
        self._count = max(0, len(self._shared) - 1)
        self._last: tuple[T, ...] = (self._shared.pop(),) if self._shared else ()

    def and_one(self, item: T) -> Grown[T]:
        """Return these items and one more."""
        if not self._last:
            return self._made(self._shared, self._count, item)
        with _growing:
            shared = self._shared
            if len(shared) != self._count:  # another one was grown from this; it keeps the list
                shared = shared[: self._count]
            shared.extend(self._last)
        return self._made(shared, self._count + 1, item)

    def with_last(self, item: T) -> Grown[T]:
        """Return these items with another last one; there must be one."""
        assert self._last
        return self._made(self._shared, self._count, item)

    @classmethod
    def _made(cls, shared: list[T], count: int, last: T) -> Grown[T]:
        made = cls.__new__(cls)
        made._shared, made._count, made._last = shared, count, (last,)
        return made

    def __len__(self) -> int:
        return self._count + len(self._last)

    def __iter__(self) -> Iterator[T]:
        return chain(islice(self._shared, self._count), self._last)

    def __reversed__(self) -> Iterator[T]:
        return reversed(tuple(self))

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(at)
        return self._last[0] if place == self._count else self._shared[place]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Grown | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
