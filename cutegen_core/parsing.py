"""Replies of a model to kernel files: a whole file, or SEARCH/REPLACE blocks against the current one.

1. A text that holds `/* cutegen` is a whole file: the fenced block around it, or everything from there on.
2. Otherwise its SEARCH/REPLACE blocks are applied in order; each SEARCH text must occur exactly once.
3. Anything else is unparsed, and the reason says what was looked for.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(?P<search>.*?)^={5,9}[ \t]*\n(?P<replace>.*?)^>{5,9} ?REPLACE", re.MULTILINE | re.DOTALL
)
_HEAD = re.compile(r"/\*\s*cutegen\b")


class Parsed(NamedTuple):
    """A kernel file's text and the prose that came with it."""

    source: str
    plan: str


class NotParsed(NamedTuple):
    reason: str


def parse_reply(reply: str, base: str | None) -> Parsed | NotParsed:
    """The kernel file a reply means; `base` is the current file that blocks refer to."""
    text = reply.replace("\r\n", "\n").lstrip("\ufeff")
    if _HEAD.search(text):
        return _whole_file(text)
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        looked_for = "a kernel file (a comment that opens with `/* cutegen`) nor SEARCH/REPLACE blocks"
        return NotParsed(f"the reply holds neither {looked_for}")
    if base is None:
        return NotParsed("the reply holds SEARCH/REPLACE blocks, but there is no current kernel to apply them to")
    return _patched(text, blocks, base)


def _whole_file(text: str) -> Parsed:
    for fence in _FENCE.finditer(text):
        if _HEAD.search(fence[2]):
            return Parsed(fence[2].strip() + "\n", text[: fence.start()].strip())
    start = _HEAD.search(text)
    assert start is not None
    body = re.sub(r"\n[ \t]*(`{3,}|~{3,})[ \t]*\s*\Z", "\n", text[start.start() :])
    return Parsed(body.strip() + "\n", re.sub(r"(`{3,}|~{3,})\w*\s*\Z", "", text[: start.start()]).strip())


def _patched(text: str, blocks: list[re.Match[str]], base: str) -> Parsed | NotParsed:
    source = base
    for number, block in enumerate(blocks, 1):
        search, replacement = block["search"], block["replace"]
        found = source.count(search) if search.strip() else 0
        if found != 1:
            problem = f"occurs {found} times" if found else "does not occur in the current kernel"
            return NotParsed(f"the SEARCH text of block {number} {problem}.{_nearest(search, source)}")
        source = source.replace(search, replacement)
    plan = re.sub(r"^[ \t]*(`{3,}|~{3,})\w*[ \t]*$", "", text[: blocks[0].start()], flags=re.MULTILINE)
    return Parsed(source, plan.strip())


def _nearest(search: str, source: str) -> str:
    """The stretch of the source that looks most like what was searched for, with its line."""
    lines, wanted = source.splitlines(), search.strip().splitlines()
    if not wanted:
        return " It is empty."
    windows = [lines[i : i + len(wanted)] for i in range(max(1, len(lines) - len(wanted) + 1))]
    scores = [difflib.SequenceMatcher(None, "\n".join(w), "\n".join(wanted)).quick_ratio() for w in windows]
    best = max(range(len(windows)), key=scores.__getitem__)
    shown = "\n".join(windows[best][:12])
    return f" The nearest text begins at line {best + 1}:\n{shown}"
