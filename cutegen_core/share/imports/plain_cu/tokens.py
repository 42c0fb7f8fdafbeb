"""Split blanked C++ into tokens that know where they stand, and find the ends of brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_TOKEN = re.compile(r"<<<|>>>|::|->|&&|\|\||[=!<>+*/%-]=|\+\+|--|\.?\d[\w.']*|[^\W\d]\w*|\"\"|''|\S")
_OPENING, _CLOSING = "([{", ")]}"


class Token(NamedTuple):
    """A token of the blanked text and its offset."""

    text: str
    at: int


def tokenize(code: str, offset: int = 0) -> tuple[Token, ...]:
    return tuple(Token(match[0], match.start() + offset) for match in _TOKEN.finditer(code))


def find_close(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the bracket that closes the one at `index`; the last index if it stays open."""
    depth = 0
    for position in range(index, len(tokens)):
        depth += (tokens[position].text in _OPENING) - (tokens[position].text in _CLOSING)
        if depth == 0:
            return position
    return len(tokens) - 1


def split_commas(tokens: Sequence[Token], *, angles: bool = False) -> list[tuple[Token, ...]]:
    """Split at the commas outside all brackets; with `angles` outside `<...>` too."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        opens, closes = token.text in _OPENING, token.text in _CLOSING
        if angles:
            opens, closes = opens or token.text == "<", closes or token.text == ">"
        depth += opens - closes
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts] if any(parts) else []


def close_angle(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the `>` that closes the `<` at `index`, or -1."""
    depth = 0
    for position in range(index, len(tokens)):
        text = tokens[position].text
        depth += (text == "<") - (text == ">") - 3 * (text == ">>>")
        if depth <= 0:
            return position
        if text in (";", "{", "}"):
            return -1
    return -1
