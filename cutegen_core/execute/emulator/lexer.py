"""Split C++ into tokens that keep every character, so that a rewritten text has the lines of the original."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple


class TokenKind(StrEnum):
    SPACE = "space"
    COMMENT = "comment"
    STRING = "string"
    CHARACTER = "character"
    NUMBER = "number"
    NAME = "name"
    SYMBOL = "symbol"


class Token(NamedTuple):
    """One token; `line` is 1-based."""

    kind: TokenKind
    text: str
    line: int


_COMMENT = r"(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))"
_TEXT = r"""
    (?P<string>(?:u8|[uUL])?R"(?P<mark>[^ ()\\\t\n]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
    |(?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z))
  | (?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z))
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9a-zA-Z_]|[0-9a-zA-Z_.])*)
  | (?P<name>[^\W\d]\w*)"""
_COMMENT_OR_TEXT = re.compile(rf"{_COMMENT}|{_TEXT}", re.VERBOSE | re.DOTALL)
_PATTERN = re.compile(
    rf"""
    (?P<space>(?:[ \t\r\f\v\n]|\\\r?\n)+)
  | {_COMMENT}
  | {_TEXT}
  | (?P<symbol>::|\#\#|%:%:|%:|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> tuple[Token, ...]:
    """Return all tokens; joining their texts gives `text`."""
    return tuple(_iterate_tokens(text))


def tokenize_until_closed(text: str, start: int) -> tuple[Token, ...]:
    """Return the tokens from the bracket at `start` to its closing bracket; empty if it stays open."""
    found: list[Token] = []
    depth = 0
    for token in _iterate_tokens(text, start):
        found.append(token)
        if token.kind is TokenKind.SYMBOL:
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
            if depth == 0:
                return tuple(found)
    return ()


def _iterate_tokens(text: str, start: int = 0) -> Iterator[Token]:
    line = 1
    for match in _PATTERN.finditer(text, start):
        kind = match.lastgroup if match.lastgroup != "mark" else "string"
        yield Token(TokenKind(kind or "symbol"), match.group(), line)
        line += match.group().count("\n")


def is_blank(token: Token) -> bool:
    """Tell whether a token is space or a comment, which the compiler ignores."""
    return token.kind in (TokenKind.SPACE, TokenKind.COMMENT)


def skip_blanks(source: Sequence[Token], index: int) -> int:
    """Return the index of the first token at or after `index` that is not blank; len(source) if there is none."""
    while index < len(source) and is_blank(source[index]):
        index += 1
    return index


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def find_closing(source: Sequence[Token], index: int) -> int:
    """Return the index of the bracket that closes the one at `index`; len(source) if it stays open."""
    depth = 0
    for position in range(index, len(source)):
        text = source[position].text if source[position].kind is TokenKind.SYMBOL else ""
        if text in _CLOSING:
            depth += 1
        elif text in _CLOSING.values():
            depth -= 1
            if depth == 0:
                return position
    return len(source)


def blank_comments(text: str) -> str:
    """Return the text with a blank and its line breaks in place of each comment; strings stay."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match["comment"] is None else " " + "\n" * match[0].count("\n")

    return _COMMENT_OR_TEXT.sub(blank, text)


def join_text(source: Sequence[Token]) -> str:
    return "".join(token.text for token in source)
