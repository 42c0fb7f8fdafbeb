"""Parse a model's reply into a kernel file: a whole file, or SEARCH/REPLACE blocks against the current one.

1. Remove what surrounds the answer: line ends, BOM, a thinking section, a JSON wrapper (`reply_text`).
2. Read the reply line by line once: edit blocks, diffs in a fence, and files that begin with `/* cutegen`.
3. A whole file takes precedence over blocks, unless it quotes the current one; of several files the last one counts.
4. Apply blocks in order (`patching`); each must fit in exactly one place. Those that fit are kept, in `partial`.

Any other reply is not parsed, and the reason names what is missing. The work is linear in the length of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.propose.replies.patching import Block, PatchFailure, apply_blocks, parse_diff
from cutegen_core.propose.replies.reply_text import extract_answer, find_odd_characters

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+.#-]*)")
_HEAD = re.compile(r"(?:[ \t]*|[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]+)(?P<head>/\*[ \t]*cutegen\b)")
_OPEN = re.compile(r"[ \t]*<{5,9} ?SEARCH\b", re.IGNORECASE)
_MIDDLE = re.compile(r"[ \t]*={5,9}[ \t]*$")
_CLOSE = re.compile(r"[ \t]*>{5,9} ?REPLACE\b", re.IGNORECASE)
_INCLUDE = re.compile(r"[ \t]*#[ \t]*include\b")
_FIRST_LETTERS = ("<<", "``", "~~", "/*")
_LOOKED_FOR = "the reply holds neither a kernel file (a comment that opens with `/* cutegen`) nor SEARCH/REPLACE blocks"


class ParsedReply(NamedTuple):
    """A kernel file's text and the prose that came with it.

    Attributes:
        warnings: remarks on the reply for the user, one line each: characters that change how code reads, a second
            file, ignored blocks.
    """

    source: str
    plan: str
    warnings: tuple[str, ...] = ()


class UnparsedReply(NamedTuple):
    """Why there is no kernel file.

    Attributes:
        patch_failed: the reply has blocks, but one of them does not fit the current kernel.
        partial: the current kernel with the blocks that fit, "" where none does.
        plan: the prose that came with it.
        misfits: the blocks that do not fit.
    """

    reason: str
    patch_failed: bool = False
    partial: str = ""
    plan: str = ""
    misfits: tuple[Block, ...] = ()


class _FoundReply(NamedTuple):
    """Result of one pass over the lines; `first` is the line where the prose before the answer ends."""

    files: list[str]
    blocks: list[Block]
    diffs: list[list[str]]
    unclosed: int
    first: int


def parse_reply(reply: str, base: str | None) -> ParsedReply | UnparsedReply:
    """Return the kernel file of a reply; `base` is the current file to which blocks refer."""
    text = extract_answer(reply)
    if text is None:
        return UnparsedReply("the reply ends inside its thinking section: there is no answer after it")
    lines = text.split("\n")
    found = _scan(lines)
    plan = _prose(lines[: found.first]) or _prose_between(lines, found)
    edits = found.blocks
    if not edits and not found.files:
        edits = [block for diff in found.diffs for block in parse_diff(diff)]
    files = [*found.files, *(b.replacement for b in edits if _is_new_file(b))]
    blocks = [b for b in edits if not _is_new_file(b)]
    current = base.replace("\r\n", "\n") if base is not None else None
    if files and not (blocks and current is not None and _same(files[-1], current)):
        return _choose_file(files, blocks, plan)
    if found.unclosed:
        reason = f"block {found.unclosed} is not complete: it needs SEARCH, =======, and REPLACE lines of its own"
        return UnparsedReply(f"{reason}. Was the reply cut off? Nothing was changed.", patch_failed=True)
    if not blocks:
        return UnparsedReply(
            _LOOKED_FOR if text.strip() else "the reply is empty; a call of a tool is no text, and no tool is offered"
        )
    if current is None and not found.blocks:
        return UnparsedReply("the reply is a diff, but there is no kernel to apply it to: write the whole kernel file")
    if current is None:
        return UnparsedReply("the reply holds SEARCH/REPLACE blocks, but there is no current kernel to apply them to")
    source = apply_blocks(blocks, current)
    if isinstance(source, PatchFailure):
        return UnparsedReply(source.reason, patch_failed=True, partial=source.source, plan=plan, misfits=source.misfits)
    return ParsedReply(source, plan, find_odd_characters(source))


def _choose_file(files: Sequence[str], blocks: Sequence[Block], plan: str) -> ParsedReply:
    source = files[-1].strip() + "\n"
    warnings = list(find_odd_characters(source))
    if any(not _same(file, source) for file in files):
        warnings.append(f"the reply holds {len(files)} kernel files; the last one is meant")
    if blocks:
        warnings.append("the reply holds a whole kernel file and blocks as well; the blocks were passed over")
    return ParsedReply(source, plan, tuple(warnings))


def _scan(lines: Sequence[str]) -> _FoundReply:
    """Assign every line to a block, a file, a diff or the prose, in one pass."""
    found = _FoundReply([], [], [], 0, len(lines))
    number = unclosed = 0
    fenced = len(lines)
    first = len(lines)
    while number < len(lines):
        start = number
        if lines[number].lstrip(" \t")[:2] not in _FIRST_LETTERS:
            number += 1
            continue
        if _OPEN.match(lines[number]):
            block, number = _read_block(lines, number)
            if block is not None:
                found.blocks.append(block)
            else:
                unclosed = unclosed or len(found.blocks) + 1
        elif _HEAD.match(lines[number]):
            file, number = _read_file(lines, number)
            found.files.append(_move_includes(file, lines[fenced:start]))
            start = min(start, fenced)
        elif (fence := _FENCE.match(lines[number])) and fence["language"].lower() in ("diff", "patch"):
            number = _find_fence_end(lines, number + 1)
            inside = lines[start + 1 : number]
            if any(_OPEN.match(line) or _HEAD.match(line) for line in inside):
                number = start + 1
                continue
            found.diffs.append(list(inside))
        else:
            number += 1
            fenced = start if fence else fenced
            continue
        fenced = len(lines)
        first = min(first, start)
    return found._replace(unclosed=unclosed, first=first)


def _read_block(lines: Sequence[str], start: int) -> tuple[Block | None, int]:
    """Return the block that begins at this line (None if it is incomplete), and the line after it."""
    middle = 0
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if _OPEN.match(line):
            return None, number
        if _MIDDLE.match(line) and not middle:
            middle = number
        elif _CLOSE.match(line):
            if not middle:
                return None, number + 1
            return Block(_join(lines[start + 1 : middle]), _join(lines[middle + 1 : number])), number + 1
    return None, len(lines)


def _read_file(lines: Sequence[str], start: int) -> tuple[str, int]:
    """Return the kernel file whose head is on this line; it ends at the next fence, edit block, or end of the reply."""
    end = _find_fence_end(lines, start + 1)
    head = _HEAD.match(lines[start])
    assert head is not None
    return "\n".join([lines[start][head.start("head") :], *lines[start + 1 : end]]).strip() + "\n", end


def _move_includes(file: str, before: Sequence[str]) -> str:
    """Move includes that the fence has above the head below it: the head must come first in a kernel file."""
    includes = [line for line in before if _INCLUDE.match(line)]
    head, end, body = file.partition("*/")
    return f"{head}{end}\n" + "\n".join(includes) + body if includes and end else file


def _find_fence_end(lines: Sequence[str], start: int) -> int:
    """Return the next line that is a fence or begins an edit block; no line of a kernel looks like either."""
    for number in range(start, len(lines)):
        line = lines[number]
        if line.lstrip(" \t")[:3] in ("```", "~~~") or _OPEN.match(line):
            return number
    return len(lines)


def _join(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _is_new_file(block: Block) -> bool:
    return not block.search.strip() and any(_HEAD.match(line) for line in block.replacement.split("\n"))


def _same(one: str, other: str) -> bool:
    return [line.rstrip() for line in one.strip().split("\n")] == [line.rstrip() for line in other.strip().split("\n")]


def _prose(lines: Sequence[str]) -> str:
    return "\n".join(line for line in lines if not _FENCE.match(line)).strip()


def _prose_between(lines: Sequence[str], found: _FoundReply) -> str:
    """Return the prose after the answer, for replies that explain themselves afterwards."""
    if not found.files and not found.blocks:
        return ""
    last = max((n for n, line in enumerate(lines) if _CLOSE.match(line) or _FENCE.match(line)), default=len(lines))
    return _prose(lines[last + 1 :])
