"""Values share what they are made of: `h + f(h)` has h twice, and ten of these after one another a thousand times.

So whatever goes through a value goes through each part of it once: `walk` looks at the parts, `shared` rebuilds them.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import ParamSpec, TypeVar

from cutegen_core.propose.playbook.values.extents import NotInPlaybook
from cutegen_core.propose.playbook.values.nodes import Value

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_MOST_CALLS = 8000
"""Inside one another: some kilobytes of a thread's stack each where they go through a generator, of megabytes."""


def made_of(held: Value | tuple[object, ...]) -> Iterator[Value]:
    """Yield the values that a value, or a tuple of them, is made of directly."""
    for part in held if isinstance(held, tuple) else [getattr(held, f.name) for f in fields(held)]:
        if isinstance(part, Value):
            yield part
        elif isinstance(part, tuple):
            yield from made_of(part)


def walk(value: Value | Sequence[Value], *through: type[Value]) -> Iterator[Value]:
    """Yield the value, or several, and what they are made of by values of these types, outermost first, each once."""
    pending, seen = [value] if isinstance(value, Value) else list(reversed(value)), set[Value]()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        yield one
        if isinstance(one, through):
            pending += reversed(list(made_of(one)))


@contextmanager
def deep() -> Iterator[None]:
    """Allow for long chains of operations: each costs a few calls inside one another, of which Python allows 1000.

    Raises:
        NotInPlaybook: a chain is longer still.
    """
    # It stays: another thread may be in the middle of a chain.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _MOST_CALLS))
    try:
        yield
    except RecursionError as error:
        raise NotInPlaybook("a chain of thousands of operations is not in the playbook") from error


def shared(rebuild: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Have a function that rebuilds values by calling itself return the same for the same while its first call runs."""
    running = threading.local()

    @functools.wraps(rebuild)
    def once(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        first = not hasattr(running, "known")
        if first:
            running.known = {}
        known: dict[object, _Result] = running.known
        key = (arguments, tuple(sorted(named.items())))
        try:
            if key not in known:
                known[key] = rebuild(*arguments, **named)
            return known[key]
        finally:
            if first:
                del running.known

    return once
