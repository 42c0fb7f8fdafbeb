"""Choose from a family's menu of ideas: what a device can do, what was tried, when a profile is due."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cutegen_core.propose.families.family import MenuItem
from cutegen_core.propose.port import Attempt
from cutegen_core.propose.replies.reading import first_words
from cutegen_core.records.trial import NO_KERNEL


def idea_key(idea: str, items: Sequence[MenuItem]) -> str:
    """Return the menu item that an idea names ("vectorise: 128-bit loads" -> "vectorise"), else the idea's own first
    words."""
    slug = first_words(idea)
    return next((item.key for item in items if item.key == slug or slug.startswith(f"{item.key}-")), slug)


def done_keys(attempts: Sequence[Attempt], items: Sequence[MenuItem]) -> tuple[str, ...]:
    """Return the items that were tried to a verdict, passed or given up, and those the person rejected."""
    over = (a for a in attempts if (a.rejected or a.status not in (None, *NO_KERNEL)) and a.idea)
    return tuple(dict.fromkeys(idea_key(a.idea, items) for a in over))


def open_items(attempts: Sequence[Attempt], items: Sequence[MenuItem]) -> tuple[MenuItem, ...]:
    done = done_keys(attempts, items)
    return tuple(item for item in items if item.key not in done)


def profile_reason(
    attempts: Sequence[Attempt], items: Sequence[MenuItem] | None, instruction: str, *, stalled_after: int
) -> str:
    """Return why profile text may enter the prompt now, "" while structure is still moving; without a menu (None)
    nobody knows that it is done.

    The three triggers: the class's structural items are done or rejected; `stalled_after` steps in a row brought
    nothing; the person asks.
    """
    if re.search(r"\bprofil", instruction, re.IGNORECASE):
        return "the person asked for it"
    if attempts and items is not None and not any(item.kind == "structure" for item in open_items(attempts, items)):
        return "the structural ideas are done"
    tail = [a for a in attempts if a.status is not None][-stalled_after:]
    if len(tail) == stalled_after and not any(a.promoted for a in tail):
        return f"the last {stalled_after} steps brought nothing"
    return ""
