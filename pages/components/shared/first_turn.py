"""Let the page with a decision draw its effect before the other tabs do: the pages of a server share one interpreter,
and two that draw at once take twice as long.
"""

from __future__ import annotations

import threading

AT_MOST_S = 0.3

_changed = threading.Condition()
_deciding: set[threading.Thread] = set()
"""The threads of pages that carry out a decision; one that has ended in the middle of it counts no more."""


def take() -> None:
    """Begin to carry out a decision and draw its effect."""
    with _changed:
        _deciding.difference_update([page for page in _deciding if not page.is_alive()])
        _deciding.add(threading.current_thread())


def over() -> None:
    """Let the others draw; every page ends with it."""
    with _changed:
        _deciding.discard(threading.current_thread())
        _changed.notify_all()


def give_way() -> None:
    """Wait, in a poll that would draw a page again, for the pages with a decision, at most `AT_MOST_S`."""
    with _changed:
        _changed.wait_for(lambda: not others_decide(), AT_MOST_S)


def others_decide() -> bool:
    """Return whether a page of another thread carries out a decision."""
    mine = threading.current_thread()
    return any(page is not mine and page.is_alive() for page in list(_deciding))
