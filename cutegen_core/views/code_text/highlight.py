"""Highlight sources with Pygments, one HTML string per source line, so that a diff can pick lines and mark words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import STANDARD_TYPES, _TokenType

from cutegen_core.machine.visible_text import escape_html
from cutegen_core.views.code_text.sass_lexer import NvidiaSassLexer

Language = Literal["cuda", "sass", "python"]

_INDENT = re.compile(r'^(?:<span class="p-w">\s*</span>|\s)+')
_LONGEST_TEXT = 1 << 17
_LONGEST_S = 0.3
_NO_CODE = re.compile(r"[^\n]{2000}|\s{500}")
_LEXERS: dict[Language, type[Lexer]] = {"cuda": CudaLexer, "sass": NvidiaSassLexer, "python": PythonLexer}


class Piece(NamedTuple):
    """A run of text in one colour; `kind` is Pygments' short class, "" for none."""

    kind: str
    text: str


@lru_cache(maxsize=64)
def pieces(source: str, language: Language = "cuda") -> tuple[tuple[Piece, ...], ...]:
    """Return every line as coloured pieces, not escaped yet."""
    finished: list[tuple[Piece, ...]] = []
    current: list[Piece] = []
    for kind, value in _coloured(source.replace("\r\n", "\n").replace("\r", "\n"), language):
        first, *rest = value.split("\n")
        current.append(Piece(kind, first))
        for text in rest:
            finished.append(tuple(current))
            current = [Piece(kind, text)]
    if any(piece.text for piece in current):
        finished.append(tuple(current))
    return tuple(finished)


def _coloured(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each token; plain text where Pygments' lexers would take long: what is no code."""
    if len(text) > _LONGEST_TEXT or _NO_CODE.search(text):
        yield "", text
        return
    begun, at = time.thread_time(), 0
    for token, value in _LEXERS[language](stripnl=False, ensurenl=False).get_tokens(text):
        yield _class_of(token), value
        at += len(value)
        if time.thread_time() - begun > _LONGEST_S:
            yield "", text[at:]
            return


@lru_cache(maxsize=64)
def lines(source: str, language: Language = "cuda") -> tuple[str, ...]:
    """Return the HTML of every line, escaped."""
    return tuple(marked(line, ()) for line in pieces(source, language))


def marked(line: Sequence[Piece], ranges: Sequence[tuple[int, int]]) -> str:
    """Return the HTML of a line with the characters in `ranges` marked, escaped."""
    html: list[str] = []
    at = 0
    for piece in line:
        cuts = sorted({0, len(piece.text), *(p - at for r in ranges for p in r if 0 < p - at < len(piece.text))})
        for begin, end in pairwise(cuts):
            inside = any(low <= at + begin < high for low, high in ranges)
            html.append(_span(piece.kind, piece.text[begin:end], inside))
        at += len(piece.text)
    return "".join(html)


def without_indent(line: str) -> str:
    """Return the HTML of a line from `lines` without its leading spaces."""
    return _INDENT.sub("", line)


def block(source: str, language: Language) -> str:
    """Return the HTML of a whole text with line numbers."""
    rows = (f'<tr><td class="cg-ln">{i}</td><td>{line}</td></tr>' for i, line in enumerate(lines(source, language), 1))
    return f'<table class="cg-code" tabindex="0" aria-label="source">{"".join(rows)}</table>'


def _span(kind: str, value: str, word: bool) -> str:
    if not value:
        return ""
    names = " ".join(filter(None, (f"p-{kind}" if kind else "", "cg-w" if word else "")))
    return f'<span class="{names}">{escape_html(value)}</span>' if names else escape_html(value)


@lru_cache(maxsize=256)
def _class_of(token: _TokenType) -> str:
    while token not in STANDARD_TYPES and token.parent is not None:
        token = token.parent
    return str(STANDARD_TYPES.get(token, ""))
