"""Let the page with a decision draw its effect before the other tabs do: the pages of a server share one interpreter,
and two that draw at once take twice as long.
"""

from __future__ import annotations

import threading

AT_MOST_S = 0.3

_changed = threading.Condition()
_deciding: set[int] = set()
"""The threads of pages that carry out a decision."""


def take() -> None:
    """Begin to carry out a decision and draw its effect."""
    with _changed:
        _deciding.add(threading.get_ident())


def over() -> None:
    """Let the others draw; every page ends with it."""
    with _changed:
        _deciding.discard(threading.get_ident())
        _changed.notify_all()


def give_way() -> None:
    """Wait, in a poll that would draw a page again, for the pages with a decision, at most `AT_MOST_S`."""
    with _changed:
        _changed.wait_for(lambda: not _deciding - {threading.get_ident()}, AT_MOST_S)
