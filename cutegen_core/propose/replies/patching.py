"""Apply edits to the current kernel: find where a SEARCH text fits, or the nearest text if it fits nowhere.

1. Search for the text as it is, then without trailing blanks, then without indentation, then without lines that are
   empty or only a comment; at last as a piece of a line.
2. It must fit in exactly one place; the looser searches indent the replacement as the text found, and a piece may not
   begin or end inside a word.
3. Every step searches one joined text, so a large file costs milliseconds.
4. Blocks that fit are applied, also where others do not: only those are asked for again. The nearest text is told for
   the first few of these, so that no reply makes the next prompt long.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

BLOCKS_MAX = 200
_COMMON_LINE = 20
_CANDIDATES = 12
_COMPARED_LINES = 40
_COMPARED_LETTERS = 3000
_SHOWN_LINES = 12
_DESCRIBED = 6
_HUNK = re.compile(r"@@.*?@@|@@")
_WORD = re.compile(r"\w+")


class Block(NamedTuple):
    """One edit; both texts end with a line end or are empty."""

    search: str
    replacement: str


class PatchFailure(NamedTuple):
    """Why edits do not fit.

    Attributes:
        source: with the blocks that fit, "" where none does.
        fitted: how many blocks fit.
        misfits: the blocks that do not.
    """

    reason: str
    source: str = ""
    fitted: int = 0
    misfits: tuple[Block, ...] = ()


def apply_blocks(blocks: Sequence[Block], source: str) -> str | PatchFailure:
    """Return the source with all blocks applied in order; each SEARCH text must fit in exactly one place."""
    if len(blocks) > BLOCKS_MAX:
        return PatchFailure(f"the reply holds {len(blocks)} blocks, more than {BLOCKS_MAX}: a whole file is needed")
    misfits = []
    for number, block in enumerate(blocks, 1):
        changed = _apply(block, source)
        if isinstance(changed, int):
            misfits.append((number, block, changed))
        else:
            source = changed
    if not misfits:
        return source
    fitted = len(blocks) - len(misfits)
    reasons = [_describe_misfit(number, block, count, source) for number, block, count in misfits[:_DESCRIBED]]
    if others := ", ".join(str(number) for number, _, _ in misfits[_DESCRIBED:]):
        reasons.append(f"The SEARCH texts of these blocks do not fit, either: {others}.")
    return PatchFailure("\n".join(reasons), source if fitted else "", fitted, tuple(block for _, block, _ in misfits))


def _describe_misfit(number: int, block: Block, count: int, source: str) -> str:
    problem = f"occurs {count} times" if count else "does not occur in the current kernel"
    hint = "Add lines around it until it is the only place." if count else describe_nearest(block.search, source)
    return f"the SEARCH text of block {number} {problem}. {hint}"


def written(block: Block) -> str:
    """Return a block as a reply writes it."""
    return f"<<<<<<< SEARCH\n{block.search}=======\n{block.replacement}>>>>>>> REPLACE"


def parse_diff(lines: Sequence[str]) -> list[Block]:
    """Return the hunks of a unified diff as blocks; line numbers are ignored, only the text around counts."""
    hunks: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(("--- ", "+++ ", "diff ", "index ")) and not any(hunks[-1]):
            continue
        if _HUNK.match(line):
            hunks.append([])
        else:
            hunks[-1].append(line)
    blocks = []
    for hunk in hunks:
        if any(line[:1] in "+-" for line in hunk if line):
            old = "".join(line[1:] + "\n" for line in hunk if line[:1] != "+" and not line.startswith("\\"))
            new = "".join(line[1:] + "\n" for line in hunk if line[:1] != "-" and not line.startswith("\\"))
            blocks.append(Block(old, new))
    return blocks


def describe_nearest(search: str, source: str) -> str:
    """Return the part of the source that is most similar to the search text, with its line."""
    wanted = search.strip("\n").split("\n")
    if not search.strip():
        return "It is empty."
    lines = source.split("\n")
    text = _clip(wanted)
    best, ratio = 0, -1.0
    for start in _likely_starts(wanted, lines):
        matcher = difflib.SequenceMatcher(None, _clip(lines[start : start + len(wanted)]), text, autojunk=False)
        found = matcher.quick_ratio()
        if found > ratio:
            best, ratio = start, found
    shown = "\n".join(line[:200] for line in lines[best : best + min(len(wanted), _SHOWN_LINES)])
    return f"The nearest text begins at line {best + 1}:\n{shown}"


def _apply(block: Block, source: str) -> str | int:
    """Return the changed source, or the number of places where the block fits if that is not 1."""
    if not block.search.strip():
        return 0
    for candidate in (block, _without_diff_marks(block)):
        if candidate is None:
            continue
        anchored, at_lines = "\n" + candidate.search, "\n" + source
        found = at_lines.count(anchored)
        if found:
            return at_lines.replace(anchored, "\n" + candidate.replacement)[1:] if found == 1 else found
        for reduce in (str.rstrip, str.strip):
            places = list(_find_places(candidate.search, source, reduce))
            if places:
                return _replace_lines(source, places[0], candidate) if len(places) == 1 else len(places)
    by_code = _apply_by_code(block, source)
    return by_code if by_code != 0 else _apply_piece(block, source)


def _apply_by_code(block: Block, source: str) -> str | int:
    """Return the source changed where the block's lines of code stand, whatever comments and empty lines lie between
    them; the number of places if that is not 1."""
    lines, searched = source.split("\n"), block.search.split("\n")
    wanted, there = _code_lines(searched), _code_lines(lines)
    if not wanted:
        return 0
    text = "\n".join(searched[number] for number in wanted)
    places = list(_find_places(text, "\n".join(lines[number] for number in there), str.strip))
    if len(places) != 1:
        return len(places)
    first, last = there[places[0]], there[places[0] + len(wanted) - 1]
    whole = "\n".join([searched[wanted[0]], *lines[first + 1 : last + 1]])
    return _replace_lines(source, first, Block(whole, block.replacement))


def _code_lines(lines: Sequence[str]) -> list[int]:
    """Return which lines are neither empty nor only a comment."""
    return [number for number, line in enumerate(lines) if line.strip() and not line.strip().startswith("//")]


def _apply_piece(block: Block, source: str) -> str | int:
    """Return the source with a piece of a line changed, or of several; the number of places if that is not 1."""
    piece, replacement = block.search.strip(), block.replacement.strip()
    before, after = r"(?<!\w)" if _WORD.match(piece[0]) else "", r"(?!\w)" if _WORD.match(piece[-1]) else ""
    places = [found.start() for found in re.finditer(f"{before}{re.escape(piece)}{after}", source)]
    if len(places) != 1:
        return len(places)
    return source[: places[0]] + replacement + source[places[0] + len(piece) :]


def _find_places(search: str, source: str, reduce: Callable[[str], str]) -> Iterator[int]:
    """Yield the 0-based lines at which the search text occurs, after applying `reduce` to every line."""
    wanted = "\n" + "\n".join(map(reduce, search.strip("\n").split("\n"))) + "\n"
    text = "\n" + "\n".join(map(reduce, source.split("\n"))) + "\n"
    at, line, counted = -1, 0, 0
    while (at := text.find(wanted, at + 1)) >= 0:
        line += text.count("\n", counted, at)
        counted = at
        yield line


def _replace_lines(source: str, start: int, block: Block) -> str:
    lines = source.split("\n")
    wanted = block.search.strip("\n").split("\n")
    replacement = block.replacement.strip("\n").split("\n") if block.replacement.strip("\n") else []
    first = next(n for n, line in enumerate(wanted) if line.strip())
    given, there = _indentation(wanted[first]), _indentation(lines[start + first])
    return "\n".join(
        [*lines[:start], *(_reindent(line, given, there) for line in replacement), *lines[start + len(wanted) :]]
    )


def _reindent(line: str, given: str, there: str) -> str:
    """Return the line with the indentation of its new place."""
    if not line.strip() or given == there:
        return line
    return there + line[len(given) :] if line.startswith(given) else there + line.lstrip()


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _without_diff_marks(block: Block) -> Block | None:
    """Return the block without leading `-` and `+`, if every line has one; else None."""
    old, new = block.search.split("\n")[:-1], block.replacement.split("\n")[:-1]
    if not all(line[:1] in "- " for line in old) or not all(line[:1] in "+ " for line in new):
        return None
    if not any(line[:1] == "-" for line in old):
        return None
    return Block("".join(line[1:] + "\n" for line in old), "".join(line[1:] + "\n" for line in new))


def _likely_starts(wanted: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Return the likely positions of the search text: shared lines vote, else the words of its first lines do."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        where.setdefault(line.strip(), []).append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        places = where.get(line.strip(), [])
        if line.strip() and len(places) <= _COMMON_LINE:
            votes.update(max(0, place - offset) for place in places)
    if not votes:
        words = set(_WORD.findall(_clip(wanted)))
        for number, line in enumerate(lines):
            votes[number] = len(words.intersection(_WORD.findall(line[:200])))
    return [start for start, _ in votes.most_common(_CANDIDATES)] or [0]


def _clip(lines: Sequence[str]) -> str:
    return "\n".join(lines[:_COMPARED_LINES])[:_COMPARED_LETTERS]
