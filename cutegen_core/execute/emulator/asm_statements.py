"""Turn inline assembly into calls of the PTX interpreter.

`asm volatile("ptx" : "=r"(d) : "r"(a))` becomes `emu::ptx("ptx", emu::out<'r'>(d), emu::in<'r'>(a))`. Only separators
and constraints are replaced, so line numbers and preprocessor lines inside a statement do not change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.execute.emulator.lexer import (
    Token,
    TokenKind,
    find_closing,
    is_blank,
    join_text,
    skip_blanks,
    tokenize_until_closed,
)
from cutegen_core.kernel.lines import line_finder

_SKIPPED_OR_ASM = re.compile(
    r"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    r'|R"(?P<mark>[^ ()\\\t\n]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<asm>\b(?:asm|__asm__|__asm)\b)",
    re.DOTALL,
)
_HEAD = re.compile(
    r"(?:asm|__asm__|__asm)(?:\s|\\\n|/\*.*?\*/|//[^\n]*)*(?:\b(?:volatile|__volatile__|__volatile)\b\s*)*(?=\()",
    re.DOTALL,
)
_CONSTRAINT = re.compile(r'"([=+]?)([hrlqfdnCb])"')  # the constraint letters of PTX; a host's differ
_CLOBBERS = 3
WRITTEN_OUT = {
    '"max.NaN.f32 %0, %1, %2;" : =f f f': "emu::extreme<true>(",
    '"min.NaN.f32 %0, %1, %2;" : =f f f': "emu::extreme<false>(",
}
"""Statements that `ptx.hpp` computes itself, by their text and constraints."""


class AsmError(Exception):
    """A statement that is not valid inline PTX; carries its line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Rewritten(NamedTuple):
    """The new text and the number of statements replaced in it."""

    text: str
    statements: int


def rewrite_asm(text: str) -> Rewritten:
    """Replace every inline assembly statement of `text`.

    Raises:
        AsmError: a statement with operand names, `asm goto`, or a constraint that PTX does not have.
    """
    parts: list[str] = []
    position = statements = 0
    line_of = line_finder(text)
    for match in _SKIPPED_OR_ASM.finditer(text):
        if match["asm"] is None or match.start() < position:
            continue
        line = line_of(match.start())
        head = _HEAD.match(text, match.start())
        if head is None:
            raise AsmError("`asm` that is not a PTX statement", line)
        statement = tokenize_until_closed(text, head.end())
        if not statement:
            raise AsmError("inline assembly whose parenthesis stays open", line)
        called = WRITTEN_OUT.get(_shape(statement), "emu::ptx(")
        parts += [text[position : match.start()], called, "\n" * head[0].count("\n")]
        parts += [*_rewrite_arguments(statement[1:-1], line), ")"]
        position = head.end() + sum(len(token.text) for token in statement)
        statements += 1
    return Rewritten("".join([*parts, text[position:]]), statements)


def _shape(statement: Sequence[Token]) -> str:
    """Return a statement's text with its constraints; of more than one text what nothing is equal to."""
    strings = [token.text for token in statement if token.kind is TokenKind.STRING]
    return f"{strings[0]} : {' '.join(text.strip(chr(34)) for text in strings[1:])}" if strings else ""


def _rewrite_arguments(body: Sequence[Token], line: int) -> list[str]:
    """Rewrite the text between the parentheses; its sections are PTX text, outputs, inputs, clobbers."""
    section = index = 0
    conditions: list[int] = []  # the section at each open #if, in which every branch starts
    parts: list[str] = []
    while index < len(body):
        token = body[index]
        if token.text == "#":
            index, text = _read_directive(body, index)
            section = _follow_branch(text, section, conditions)
            parts.append(text)
            continue
        if token.text in (":", "::"):
            section += len(token.text)
            if section > _CLOBBERS:
                raise AsmError("inline assembly with labels (`asm goto`)", line)
        elif section in (0, _CLOBBERS) or is_blank(token):
            parts.append(token.text if section == 0 or is_blank(token) else "")
        elif token.text != ",":
            index, text = _rewrite_operand(body, index, line)
            parts.append(text)
            continue
        index += 1
    return parts


def _read_directive(body: Sequence[Token], index: int) -> tuple[int, str]:
    end = index + 1
    while end < len(body) and "\n" not in body[end].text:
        end += 1
    return end, join_text(body[index:end])


def _follow_branch(directive: str, section: int, conditions: list[int]) -> int:
    word = directive[1:].split()[0]
    if word in ("if", "ifdef", "ifndef"):
        conditions.append(section)
    elif word in ("else", "elif"):
        return conditions[-1]
    elif word == "endif":
        conditions.pop()
    return section


def _rewrite_operand(body: Sequence[Token], index: int, line: int) -> tuple[int, str]:
    token = body[index]
    constraint = _CONSTRAINT.fullmatch(token.text) if token.kind is TokenKind.STRING else None
    opening = skip_blanks(body, index + 1)
    if constraint is None or opening == len(body) or body[opening].text != "(":
        raise AsmError(f"an operand the emulator cannot read: {token.text}", line)
    closing = find_closing(body, opening)
    way = {"=": "out", "+": "inout", "": "in"}[constraint[1]]
    between = join_text(body[index + 1 : opening])
    return closing + 1, f", {between}emu::{way}<'{constraint[2]}'>{join_text(body[opening : closing + 1])}"
