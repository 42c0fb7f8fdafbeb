"""Take declarations and assignments of host code into a frame, and run its small helper functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cutegen_core.share.imports.plain_cu.directives import expand
from cutegen_core.share.imports.plain_cu.host_values import read_value, unread
from cutegen_core.share.imports.plain_cu.source import Function, SourceFile
from cutegen_core.share.imports.plain_cu.statements import (
    Block,
    If,
    Returned,
    Simple,
    Statement,
    lambda_body,
    read_statements,
)
from cutegen_core.share.imports.plain_cu.tokens import Token, close_angle, find_close, split_commas
from cutegen_core.share.imports.plain_cu.values import ONE, Buffer, Frame, Number, Triple, TypeOf, Unread, Value

Tokens = tuple[Token, ...]
_NAME = re.compile(r"[^\W\d]\w*")


def statements_of(source: SourceFile, body: Tokens) -> tuple[Statement, ...]:
    """Return the statements of a body, with the file's macros expanded."""
    return read_statements(tuple(expand(source.macros, body)))


def returned_value(frame: Frame, body: Tokens) -> Value:
    """Return what a helper computes; Unread if it is more than declarations, conditions and returns."""
    found = _returned(frame, statements_of(frame.source, body))
    return found if found is not None else unread(frame, body)


def _returned(frame: Frame, statements: Sequence[Statement]) -> Value | None:
    for index, statement in enumerate(statements):
        if isinstance(statement, Returned):
            return read_value(frame, statement.tokens)
        if isinstance(statement, Simple):
            assign(frame, statement.tokens)
        elif isinstance(statement, Block):
            return _returned(frame, (*statement.body, *statements[index + 1 :]))
        elif isinstance(statement, If):
            rest = statements[index + 1 :]
            yes = _returned(frame.inner(), (*statement.then, *rest))
            no = _returned(frame.inner(), (*statement.otherwise, *rest))
            return choose(frame, statement.condition, yes, no)
        else:
            return None
    return None


def choose(frame: Frame, condition: Tokens, yes: Value | None, no: Value | None) -> Value:
    """Return the value of `condition ? yes : no`."""
    if yes == no and yes is not None:
        return yes
    chosen = read_value(frame, condition)
    if isinstance(chosen, Number) and isinstance(yes, Number) and isinstance(no, Number):
        if chosen.value is not None:
            return yes if chosen.value else no
        return Number(f"{yes.at(2)} * ({chosen.text}) + {no.at(2)} * (1 - ({chosen.text}))", 1)
    return unread(frame, condition)


def assign(frame: Frame, tokens: Tokens) -> None:
    """Take a declaration or an assignment into the frame; ignore every other statement."""
    if not tokens:
        return
    texts = [t.text for t in tokens]
    if texts[0] == "using" and "=" in texts:
        frame.types[texts[1]] = meant_type(frame, " ".join(texts[texts.index("=") + 1 :]))
        return
    if texts[0] == "typedef":
        frame.types[texts[-1]] = meant_type(frame, " ".join(texts[1:-1]))
        return
    first, *others = split_commas(tokens, angles="<" in texts and "=" not in texts)
    name = _assign_one(frame, first)
    if name and others and texts[0] not in (name,):
        for part in others:
            _assign_one(frame, (Token(texts[0], part[0].at), *part) if part and part[0].text != "*" else part)


def meant_type(frame: Frame, text: str) -> str | TypeOf:
    """Return the type that a name stands for."""
    text = text.replace("typename ", "").replace(" :: ", "::").strip()
    return frame.types.get(text, text)


def _assign_one(frame: Frame, tokens: Tokens) -> str:
    """Take `T x = value`, `T x(value)`, `x = value`, `x.y = value` or `T* x`; return the name."""
    texts = [t.text for t in tokens]
    at = next((i for i, t in enumerate(texts) if t in ("=", "+=", "-=", "*=", "/=", "%=")), -1)
    if at > 0:
        return _assign_value(frame, tokens[:at], tokens[at + 1 :], plain=texts[at] == "=")
    if len(texts) >= 2 and "*" in texts and _NAME.fullmatch(texts[-1]) and "(" not in texts:
        frame.values[texts[-1]] = Buffer(texts[-1], made=True)
        return texts[-1]
    opening = next((i for i, t in enumerate(texts) if t in ("(", "{")), -1)
    if opening >= 2 and _NAME.fullmatch(texts[opening - 1]) and texts[opening - 2] not in (".", "->", "::"):
        name = texts[opening - 1]
        inside = tokens[opening + 1 : find_close(tokens, opening)]
        is_triple = "dim3" in texts[: opening - 1]
        head = (Token("dim3", tokens[0].at), Token("(", 0), *inside, Token(")", 0)) if is_triple else inside
        frame.values[name] = read_value(frame, head)
        return name
    if len(texts) == 2 and texts[0] == "dim3":
        frame.values[texts[1]] = Triple(ONE, ONE, ONE)
        return texts[1]
    return texts[-1] if len(texts) >= 2 and _NAME.fullmatch(texts[-1]) and "(" not in texts else ""


def _assign_value(frame: Frame, left: Tokens, right: Tokens, *, plain: bool) -> str:
    texts = [t.text for t in left]
    if texts[-1] == "]" and "[" in texts:
        name = texts[texts.index("[") - 1]
        if right and right[0].text == "{":
            frame.arrays[name] = tuple(split_commas(right[1 : find_close(right, 0)]))
            return name
    if "." in texts or "->" in texts or texts[-1] == "]":
        return _assign_member(frame, texts, right)
    name = texts[-1]
    if not plain:
        frame.values[name] = unread(frame, (*left, *right))
        return name
    body = lambda_body((Token("=", 0), *right)) if right and right[0].text == "[" else None
    if body is not None:
        frame.lambdas[name] = (_lambda_parameters(right), body)
    elif right and kernel_at(frame, right) is not None:
        frame.kernels[name] = right
    elif right and right[0].text == "{" and "dim3" in texts:
        inside = right[1 : find_close(right, 0)]
        frame.values[name] = read_value(frame, (Token("dim3", right[0].at), Token("(", 0), *inside, Token(")", 0)))
    elif right and right[0].text == "{":
        frame.arrays[name] = tuple(split_commas(right[1 : find_close(right, 0)]))
    else:
        frame.values[name] = _named(frame, name, read_value(frame, right))
    return name


def _named(frame: Frame, name: str, value: Value) -> Value:
    """Give a tensor that the host makes the name of its variable, and keep open what the problem says."""
    if name in frame.open and (isinstance(value, Unread) or (isinstance(value, Number) and "‹" not in value.text)):
        return Number(f"‹#{name}›")
    return replace(value, name=name) if isinstance(value, Buffer) and value.made and not value.name else value


def _assign_member(frame: Frame, texts: Sequence[str], right: Tokens) -> str:
    path, value = "".join(texts), read_value(frame, right)
    owner, _, member = path.rpartition(".")
    found = frame.values.get(owner)
    if isinstance(found, Triple) and member in ("x", "y", "z"):
        frame.values[owner] = replace(found, **{member: value})
    frame.values[path] = value
    return path


def _lambda_parameters(tokens: Tokens) -> tuple[str, ...]:
    close = find_close(tokens, 0) + 1
    if close >= len(tokens) or tokens[close].text != "(":
        return ()
    inside = tokens[close + 1 : find_close(tokens, close)]
    return tuple(part[-1].text for part in split_commas(inside, angles=True) if part)


def kernel_at(frame: Frame, tokens: Sequence[Token]) -> tuple[Function, Tokens] | None:
    """Return the kernel that the tokens name, with its template arguments."""
    tokens = tuple(tokens)
    while tokens and tokens[0].text in ("&", "(", "::"):
        tokens = tokens[find_close(tokens, 0) + 1 :] if tokens[0].text == "(" else tokens[1:]
    if tokens and tokens[0].text == "reinterpret_cast" and "(" in [t.text for t in tokens]:
        opening = next(i for i, t in enumerate(tokens) if t.text == "(")
        return kernel_at(frame, tokens[opening + 1 : find_close(tokens, opening)])
    index = 0
    while index + 2 < len(tokens) and tokens[index + 1].text == "::":
        index += 2
    if index >= len(tokens):
        return None
    name = tokens[index].text
    if name in frame.kernels and len(tokens) == index + 1:
        return kernel_at(replace(frame, kernels={}), frame.kernels[name])
    kernel = frame.source.kernels.get(name)
    after = tokens[index + 1 :]
    if kernel is None or (after and after[0].text != "<"):
        return None
    close = close_angle(after, 0) if after else -1
    return kernel, tuple(after[1:close]) if close > 0 else ()
