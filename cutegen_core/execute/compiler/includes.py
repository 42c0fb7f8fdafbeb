"""Find directives with which a candidate could reach a file outside the toolchain, before the compiler sees them.

The compilers' sandbox hides those files anyway; this scan also works if the Linux kernel has no Landlock, and its
message is better. It joins spliced lines but does not skip comments: a comment that quotes a forbidden directive is
refused too, so that no directive is missed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

from cutegen_core.records.trial import Diagnostic

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_GAP = r"(?:[ \t\v\f]|/\*.*?\*/)*"
_DIRECTIVE = re.compile(rf"(?:#|%:|\?\?=){_GAP}(include_next|include|embed|import|line\b)([^\n]*)", re.DOTALL)
_LINE_MARKER = re.compile(rf"^(?:[^\n]*\*/)?{_GAP}(?:#|%:|\?\?=){_GAP}\d", re.MULTILINE | re.DOTALL)
_ASKING = re.compile(r"__has_include(?:_next)?|__has_embed|__has_##")
_HEADER = re.compile(r'\s*(?:<([^<>"\n]+)>|"([^<>"\n]+)")\s*(?://.*|/\*.*)?')
_INCBIN = re.compile(r"\.incbin\b")


def check_includes(text: str, first_line: int, folders: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Return an error for each forbidden directive in `text`, whose first line has number `first_line`."""
    removed, removed_length = [], 0
    for match in _SPLICE.finditer(text):
        removed.append(match.start() - removed_length)
        removed_length += len(match[0])
    spliced = _SPLICE.sub("", text)

    def line(position: int) -> int:
        return first_line + spliced.count("\n", 0, position) + bisect_left(removed, position)

    return tuple(
        Diagnostic(line(at), "error", message, "includes") for at, message in sorted(_find_hits(spliced, folders))
    )


def _find_hits(text: str, folders: Sequence[Path]) -> Iterator[tuple[int, str]]:
    for match in _DIRECTIVE.finditer(text):
        complaint = _check_directive(match[1], match[2], folders)
        if complaint:
            yield match.start(), complaint
    for pattern, message in (
        (_LINE_MARKER, "line markers are not allowed: messages must point to the lines of this file"),
        (_ASKING, "the file system may not be asked about"),
        (_INCBIN, "'.incbin' would read a file: it is not allowed"),
    ):
        for match in pattern.finditer(text):
            yield match.start(), message


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
