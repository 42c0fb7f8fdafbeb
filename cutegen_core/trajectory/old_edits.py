"""Name the edits of older sessions, whose events say "edited by hand", by what they changed, when events are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from cutegen_core.kernel.edit_words import say_edit
from cutegen_core.records.candidate import Author
from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import Proposed, Recorded

UNNAMED = "edited by hand"

_say = lru_cache(maxsize=4096)(say_edit)


def with_names(events: Iterable[Recorded], text: Callable[[str], str]) -> list[Recorded]:
    """Return the events with every unnamed edit named, but one whose texts are missing; `text` reads a kernel."""
    return [_named(recorded, text) for recorded in events]


def _named(recorded: Recorded, text: Callable[[str], str]) -> Recorded:
    event = recorded.event
    if isinstance(event, Proposed) and event.idea == UNNAMED and event.author is Author.PERSON and event.parent:
        with suppress(StoreError):
            return replace(recorded, event=replace(event, idea=_say(text(event.parent), text(event.candidate))))
    return recorded
