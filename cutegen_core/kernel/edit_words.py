"""Name an edit by what it changed: "j < cols → j <= cols, line 71". A person who edits by hand writes no title.

1. A new idea in the file names the edit itself.
2. Otherwise every changed line is named by the words that differ, with a neighbour or two; equal changes are one.
3. A change of the launch plan is named by `plan_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from cutegen_core.kernel import hunks
from cutegen_core.kernel.opcodes import find_opcodes
from cutegen_core.kernel.plan_words import ARROW, READABLE_AGAIN, UNREADABLE, plan_lines, say_plan_change
from cutegen_core.records.wording import counted

MOST_LETTERS = 72
SAME_TEXT = "same text again"
_ANEW = 0.5
"""With a larger share of its lines changed, a text is new."""
_FEW_LINES = 12
_WHOLE_LINE = ("+ ", "− ")
_TOKEN = re.compile(r"\w+(?:\.\w+)*|<<=|>>=|<<<|>>>|->|::|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|\S")
_IDEA = re.compile(r"""^[ \t]*idea[ \t]*=[ \t]*(["'])(.{1,300})\1[ \t]*$""", re.MULTILINE)
_LONGEST_LINE = 400


class _Change(NamedTuple):
    """A changed line: what was changed, and its line in the new text."""

    words: str
    line: int


def say_edit(old: str, new: str) -> str:
    """Name what `new` changes of `old`."""
    if old == new:
        return SAME_TEXT
    idea, before = _IDEA.search(new), _IDEA.search(old)
    if idea and (before is None or idea[2] != before[2]):
        return idea[2]
    found = hunks.split(old, new)
    if _is_anew(found, old, new):
        return f"written anew: {counted(len(new.splitlines()), 'line')}"
    plan = say_plan_change(old, new)
    named = [f"plan {plan}" if plan.startswith((UNREADABLE, READABLE_AGAIN)) else plan] if plan else []
    end = plan_lines(new)
    changes = [change for hunk in found for change in _changes(hunk) if change.line > end]
    named += _grouped(sorted(changes, key=lambda change: change.words.startswith(_WHOLE_LINE)))  # what changed leads
    if not named:
        return f"{_first(found)}, line {found[0].new_start}"
    if named[0] == f"plan {READABLE_AGAIN}":
        named.append(named.pop(0))
    more = len(named) - 1
    return f"{_short(named[0])}{f', and {more} more' if more else ''}"


def _is_anew(found: Sequence[hunks.Hunk], old: str, new: str) -> bool:
    lines = max(len(old.splitlines()), len(new.splitlines()))
    changed = sum(max(hunk.added, hunk.removed) for hunk in found)
    return lines > _FEW_LINES and changed > _ANEW * lines


def _first(found: Sequence[hunks.Hunk]) -> str:
    text = next(iter((*found[0].new, *found[0].old)), "")
    return _short(text.strip()) or "blank lines"


def _changes(hunk: hunks.Hunk) -> Iterator[_Change]:
    for tag, i1, i2, j1, j2 in find_opcodes(hunk.old, hunk.new):
        if tag == "equal":
            continue
        for k, (before, after) in enumerate(zip_longest(hunk.old[i1:i2], hunk.new[j1:j2], fillvalue="")):
            words = _line_change(before.strip(), after.strip())
            if words:
                yield _Change(words, hunk.new_start + min(j1 + k, max(j1, j2 - 1)))


def _grouped(changes: Sequence[_Change]) -> list[str]:
    """Write each change once, with all its lines."""
    lines: dict[str, list[int]] = {}
    for words, line in changes:
        lines.setdefault(words, []).append(line)
    return [f"{_short(words)}, line{'s' if len(at) > 1 else ''} {_numbers(at)}" for words, at in lines.items()]


def _numbers(at: Sequence[int]) -> str:
    shown = [*map(str, at[:3]), *(["…"] if len(at) > 3 else [])]
    return ", ".join(shown)


def _line_change(old: str, new: str) -> str:
    """Write the words in which two lines differ; "" where only blanks do."""
    if not old or not new:
        return f"{_WHOLE_LINE[0]}{new}" if new else f"{_WHOLE_LINE[1]}{old}" if old else ""
    a, b = list(_TOKEN.finditer(old[:_LONGEST_LINE])), list(_TOKEN.finditer(new[:_LONGEST_LINE]))
    first, last = _common([m[0] for m in a], [m[0] for m in b])
    if first == len(a) == len(b):
        return ""
    low, high = _widened([m[0] for m in (*a[first : len(a) - last], *b[first : len(b) - last])], first, last, a, b)
    return f"{_cut(old, a, low, high)} {ARROW} {_cut(new, b, low, high)}"


def _common(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens two lines share at their beginning and at their end."""
    least = min(len(a), len(b))
    first = next((i for i in range(least) if a[i] != b[i]), least)
    last = next((i for i in range(least - first) if a[-1 - i] != b[-1 - i]), least - first)
    return first, last


def _widened(
    differ: Sequence[str], first: int, last: int, a: Sequence[re.Match[str]], b: Sequence[re.Match[str]]
) -> tuple[int, int]:
    """Return how many tokens to leave out at both ends, so that what is left reads by itself."""
    inserted = min(len(a), len(b)) == first + last
    if not inserted and all(_is_name(word) for word in differ):
        return first, last
    number = all(word[0].isdecimal() for word in differ) and not inserted
    low = max(0, first - (2 if number else 1))
    while low and not (_is_name(a[low][0]) and _is_closed([m[0] for m in a[low:first]])):
        low -= 1
    return low, last if number or (inserted and first) else max(0, last - 1)


def _is_closed(words: Sequence[str]) -> bool:
    """Return whether no bracket is closed that was not opened."""
    return all(words.count(left) >= words.count(right) for left, right in ("()", "[]", "{}"))


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


def _cut(text: str, tokens: Sequence[re.Match[str]], first: int, last: int) -> str:
    kept = tokens[first : len(tokens) - last]
    return text[kept[0].start() : kept[-1].end()] if kept else "nothing"


def _short(words: str) -> str:
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 1].rstrip()}…"
