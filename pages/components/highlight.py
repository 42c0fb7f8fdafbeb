"""Pygments to HTML, one string per source line, so that a diff can pick lines of both sides."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import STANDARD_TYPES, _TokenType

from pages.components.sass_lexer import NvidiaSassLexer
from pages.components.texts import escaped

Language = Literal["cuda", "sass", "python"]

_LEXERS: dict[Language, type[Lexer]] = {"cuda": CudaLexer, "sass": NvidiaSassLexer, "python": PythonLexer}


@lru_cache(maxsize=64)
def lines(source: str, language: Language = "cuda") -> tuple[str, ...]:
    """HTML of every line; everything in it is escaped."""
    lexer = _LEXERS[language](stripnl=False, ensurenl=False)
    finished: list[str] = []
    current: list[str] = []
    for token, value in lexer.get_tokens(source.replace("\r\n", "\n").replace("\r", "\n")):
        first, *rest = value.split("\n")
        current.append(_span(token, first))
        for piece in rest:
            finished.append("".join(current))
            current = [_span(token, piece)]
    if "".join(current):
        finished.append("".join(current))
    return tuple(finished)


def block(source: str, language: Language) -> str:
    """HTML of a whole text with line numbers."""
    rows = (f'<tr><td class="cg-ln">{i}</td><td>{line}</td></tr>' for i, line in enumerate(lines(source, language), 1))
    return f'<table class="cg-code">{"".join(rows)}</table>'


def _span(token: _TokenType, value: str) -> str:
    if not value:
        return ""
    name = _class_of(token)
    return f'<span class="p-{name}">{escaped(value)}</span>' if name else escaped(value)


@lru_cache(maxsize=256)
def _class_of(token: _TokenType) -> str:
    while token not in STANDARD_TYPES and token.parent is not None:
        token = token.parent
    return STANDARD_TYPES.get(token, "")
