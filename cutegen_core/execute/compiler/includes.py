"""Find directives with which a candidate could reach a file outside the toolchain, before the compiler sees them.

The compilers' sandbox hides those files anyway; this scan also works if the Linux kernel has no Landlock, and its
message is better. It joins spliced lines but does not skip comments: a comment that quotes a forbidden directive is
refused too, so that no directive is missed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from cutegen_core.kernel.lines import line_finder
from cutegen_core.records.trial import Diagnostic

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_BLANKS = re.compile(r"[ \t\v\f]*")
_HASH = re.compile(r"#|%:|\?\?=")
_DIRECTIVE = re.compile(r"(include_next|include|embed|import|line\b)([^\n]*)")
_DIGIT = re.compile(r"\d")
_ASKING = re.compile(r"__has_include(?:_next)?|__has_embed|__has_##")
_HEADER = re.compile(r'\s*(?:<([^<>"\n]+)>|"([^<>"\n]+)")\s*(?://.*|/\*.*)?')
_MOST_HITS = 100
_INCBIN = re.compile(r"\.incbin\b")


def check_includes(text: str, first_line: int, folders: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Return an error for each forbidden directive in `text`, whose first line has number `first_line`."""
    removed, removed_length = [], 0
    for match in _SPLICE.finditer(text):
        removed.append(match.start() - removed_length)
        removed_length += len(match[0])
    spliced = _SPLICE.sub("", text)

    line_of = line_finder(spliced, first_line)
    return tuple(
        Diagnostic(line_of(at) + bisect_left(removed, at), "error", message, "includes")
        for at, message in sorted(_find_hits(spliced, folders))
    )


def _find_hits(text: str, folders: Sequence[Path]) -> Iterator[tuple[int, str]]:
    yield from islice(_find_directives(text, folders), _MOST_HITS)
    for pattern, message in (
        (_ASKING, "the file system may not be asked about"),
        (_INCBIN, "'.incbin' would read a file: it is not allowed"),
    ):
        for match in islice(pattern.finditer(text), _MOST_HITS):
            yield match.start(), message


def _find_directives(text: str, folders: Sequence[Path]) -> Iterator[tuple[int, str]]:
    gaps, read = _Gaps(text), 0
    for hash_ in _HASH.finditer(text):
        if hash_.start() < read:  # in the rest of a directive's line
            continue
        end = gaps.skip(hash_.end())
        directive = _DIRECTIVE.match(text, end)
        read = directive.end() if directive else read
        complaint = _check_directive(directive[1], directive[2], folders) if directive else ""
        if complaint:
            yield hash_.start(), complaint
        elif _DIGIT.match(text, end) and gaps.begins_line(hash_.start()):
            yield hash_.start(), "line markers are not allowed: messages must point to the lines of this file"


class _Gaps:
    """Skips blanks and comments; each place is walked once, since a file may hold a hash in front of each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closings = [match.start() for match in re.finditer(r"\*/", text)]
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._ends: dict[int, int] = {}

    def skip(self, at: int) -> int:
        """Return the end of the blanks and comments that begin at a place; a comment that stays open is none."""
        passed = []
        while at not in self._ends:
            passed.append(at)
            blanks = _BLANKS.match(self._text, at)
            end = blanks.end() if blanks else at
            closing = bisect_left(self._closings, end + 2) if self._text.startswith("/*", end) else len(self._closings)
            if closing == len(self._closings):
                self._ends[at] = end
            else:
                at = self._closings[closing] + 2
        end = self._ends[at]
        self._ends |= dict.fromkeys(passed, end)
        return end

    def begins_line(self, at: int) -> bool:
        """Tell whether nothing but blanks follows the line's start, or the last comment, in front of a place."""
        start = self._line_starts[bisect_right(self._line_starts, at) - 1]
        closed = bisect_left(self._closings, at)
        return self.skip(max(start, self._closings[closed - 1] + 2 if closed else 0)) == at


def _check_directive(directive: str, rest: str, folders: Sequence[Path]) -> str:
    if directive == "line":
        return "#line is not allowed: messages must point to the lines of this file"
    if directive != "include":
        return f"#{directive} is not allowed; only #include <...> of the toolchain's headers is"
    header = _HEADER.fullmatch(rest)
    if header is None:
        return "write the header's name behind #include: <cute/...>, <cutlass/...> or <cuda...>"
    name = header[1] or header[2]
    if name.startswith("/") or ".." in name or (header[2] and not _is_inside(name, folders)):
        return f'#include of "{name}" is refused: only headers of CUTLASS, CuTe, CUDA and CCCL can be included'
    return ""


def _is_inside(name: str, folders: Sequence[Path]) -> bool:
    return any((folder / name).is_file() and (folder / name).resolve().is_relative_to(folder) for folder in folders)
