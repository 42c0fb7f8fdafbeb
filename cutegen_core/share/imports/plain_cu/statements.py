"""Read the body of a host function as statements: blocks, conditions, lambdas of dispatch macros, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen_core.share.imports.plain_cu.tokens import CodeToken, find_close

Tokens = tuple[CodeToken, ...]


@dataclass(frozen=True)
class Simple:
    """A statement up to its semicolon."""

    tokens: Tokens


@dataclass(frozen=True)
class Returned:
    """`return ...;`"""

    tokens: Tokens


@dataclass(frozen=True)
class If:
    """`if (condition) then else otherwise`"""

    condition: Tokens
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]

    @property
    def always_returns(self) -> bool:
        return bool(self.then) and isinstance(self.then[-1], Returned)


@dataclass(frozen=True)
class Repeated:
    """A loop or a switch, whose launches cannot be listed."""

    word: str
    body: tuple[Statement, ...]
    at: int


@dataclass(frozen=True)
class BlockStatement:
    """`{ ... }`; names declared in it end with it."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Dispatch:
    """`AT_DISPATCH_...(x.scalar_type(), "name", [&] { ... })`: the body once for a dtype."""

    dtype_of: Tokens
    body: tuple[Statement, ...]


Statement = Simple | Returned | If | Repeated | BlockStatement | Dispatch

_LOOPS = frozenset(("for", "while", "switch"))


def read_statements(tokens: Sequence[CodeToken]) -> tuple[Statement, ...]:
    """Return the statements of a body, without its braces."""
    found: list[Statement] = []
    index = 0
    while index < len(tokens):
        statement, index = _read(tokens, index)
        if statement is not None:
            found.append(statement)
    return tuple(found)


def _read(tokens: Sequence[CodeToken], index: int) -> tuple[Statement | None, int]:
    text = tokens[index].text
    if text == ";":
        return None, index + 1
    if text == "{":
        close = find_close(tokens, index)
        return BlockStatement(read_statements(tokens[index + 1 : close])), close + 1
    if text == "if":
        return _read_if(tokens, index)
    if text in _LOOPS:
        close = find_close(tokens, index + 1)
        body, end = _read_branch(tokens, close + 1)
        return Repeated(text, body, tokens[index].at), end
    if text == "do":
        body, end = _read_branch(tokens, index + 1)
        # `do { ... } while (0)` is how macros hold several statements.
        while end < len(tokens) and tokens[end].text != ";":
            end = find_close(tokens, end) + 1 if tokens[end].text == "(" else end + 1
        return BlockStatement(body), end + 1
    end = _end_of_simple(tokens, index)
    if text == "return":
        return Returned(tuple(tokens[index + 1 : end])), end + 1
    return _simple(tuple(tokens[index:end])), end + 1


def _read_if(tokens: Sequence[CodeToken], index: int) -> tuple[Statement, int]:
    opening = index + 1
    if opening < len(tokens) and tokens[opening].text == "constexpr":
        opening += 1
    close = find_close(tokens, opening)
    then, end = _read_branch(tokens, close + 1)
    otherwise: tuple[Statement, ...] = ()
    if end < len(tokens) and tokens[end].text == "else":
        otherwise, end = _read_branch(tokens, end + 1)
    return If(tuple(tokens[opening + 1 : close]), then, otherwise), end


def _read_branch(tokens: Sequence[CodeToken], index: int) -> tuple[tuple[Statement, ...], int]:
    if index >= len(tokens):
        return (), index
    statement, end = _read(tokens, index)
    if isinstance(statement, BlockStatement):
        return statement.body, end
    return ((statement,) if statement else ()), end


def _end_of_simple(tokens: Sequence[CodeToken], index: int) -> int:
    while index < len(tokens) and tokens[index].text != ";":
        index = find_close(tokens, index) + 1 if tokens[index].text in "([{" else index + 1
    return min(index, len(tokens))


def _simple(tokens: Tokens) -> Statement:
    """Return a statement; a call of a dispatch macro with its body read."""
    if tokens and "DISPATCH" in tokens[0].text and len(tokens) > 1 and tokens[1].text == "(":
        inside = tokens[2 : find_close(tokens, 1)]
        comma = next((i for i, t in enumerate(inside) if t.text == ","), len(inside))
        body = lambda_body(inside)
        if body is not None:
            first = _first_typed(inside, comma)
            return Dispatch(first, read_statements(body))
    return Simple(tokens)


def _first_typed(inside: Tokens, comma: int) -> Tokens:
    """Return the argument that names a dtype: the first with `scalar_type()` or `dtype()`, else the first."""
    for position, token in enumerate(inside):
        if token.text in ("scalar_type", "dtype"):
            begin = max((i + 1 for i in range(position) if inside[i].text in (",", "(")), default=0)
            return inside[begin : position + 3]
    return inside[:comma]


def lambda_body(tokens: Tokens) -> Tokens | None:
    """Return the tokens in the braces of the first lambda, or None."""
    index = 0
    while index < len(tokens):
        begins = tokens[index].text == "[" and (index == 0 or tokens[index - 1].text in ("(", ",", "=", "return"))
        if not begins:
            index += 1
            continue
        index = find_close(tokens, index) + 1  # no lambda is in the captures of another
        if index < len(tokens) and tokens[index].text == "(":
            index = find_close(tokens, index) + 1
        while index < len(tokens) and tokens[index].text not in ("{", ","):
            index += 1
        if index < len(tokens) and tokens[index].text == "{":
            return tokens[index + 1 : find_close(tokens, index)]
    return None
