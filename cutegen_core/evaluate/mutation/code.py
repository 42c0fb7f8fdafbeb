"""The live code of a kernel file as words with their places: no comment, no directive, nothing that no kernel reaches.

1. The lexer's tokens without blanks; adjacent symbols join to operators (`<=`, `+=`).
2. Preprocessor lines and what `#if 0` leaves out are dropped.
3. Of the rest, the definitions that a launched kernel reaches by name remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cutegen_core.execute.emulator.lexer import TokenKind, is_blank, tokenize
from cutegen_core.kernel.kernel_file import KernelFile

_OPERATORS = frozenset(
    "<= >= == != && || += -= *= /= %= &= |= ^= << ++ -- -> :: ##".split()  # noqa: SIM905
)
_OPENING = {"(": ")", "[": "]", "{": "}"}
_NEVER_TEMPLATE = frozenset({";", ")", "]", "}", "&&", "||", "?"})
_NAMES_NOTHING = frozenset({"__launch_bounds__", "alignas", "__align__", "decltype", "__attribute__"})
_MULTIPLIES = frozenset({"*", "/", "%"})
_UNARY = frozenset({"-", "!", "+", "~", "*", "&"})


LONGEST_WORDS = 200
"""Of an expression that is changed as a whole; a longer one is no defect that a person makes."""


class Lexeme(NamedTuple):
    """A token or an operator; `start` and `end` are places in the file's text."""

    kind: TokenKind
    text: str
    start: int
    end: int


class LiveCode:
    """The words of a kernel file's live code, with what belongs together.

    Attributes:
        text: the whole file.
        words: of the live code, in order.
        angles: indices of the `<` and `>` that enclose template arguments; partner by index.
    """

    def __init__(self, kernel: KernelFile) -> None:
        self.text = kernel.text
        offset = len(kernel.text) - len(kernel.body)
        everything = list(_join_operators(_drop_directives(kernel.body, offset)))
        live = list(_drop_dead(everything, {launch.function for launch in kernel.launches}))
        self.words: Sequence[Lexeme] = list(_drop_assertions(live))
        self._closing = _match_brackets(self.words)
        self.angles = _match_angles(self.words, self._closing)

    def __len__(self) -> int:
        return len(self.words)

    def at(self, index: int) -> str:
        """Return the text of a word; "" beyond either end."""
        return self.words[index].text if 0 <= index < len(self.words) else ""

    def is_name(self, index: int) -> bool:
        return 0 <= index < len(self.words) and self.words[index].kind is TokenKind.NAME

    def is_number(self, index: int) -> bool:
        return 0 <= index < len(self.words) and self.words[index].kind is TokenKind.NUMBER

    def closing(self, index: int) -> int:
        """Return the index of the bracket that closes the one at `index`."""
        return self._closing.get(index, len(self.words))

    def between(self, start: int, end: int) -> str:
        """Return the text from the word `start` up to, and without, the word `end`."""
        return self.text[self.words[start].start : self.words[end - 1].end] if start < end else ""

    def has_blank_before(self, index: int) -> bool:
        return 0 < index < len(self.words) and self.words[index - 1].end < self.words[index].start

    def end_of_primary(self, index: int) -> int:
        """Return the index behind an operand: signs, a name, a number or brackets, and calls and indices behind it."""
        while self.at(index) in _UNARY:
            index += 1
        index = self.closing(index) + 1 if self.at(index) == "(" else index + 1
        while index < len(self.words):
            if self.at(index) in ("::", ".", "->"):
                index += 2
            elif self.at(index) in _OPENING:
                index = self.closing(index) + 1
            elif index in self.angles and self.at(index) == "<":
                index = self.angles[index] + 1
            else:
                return index
        return index

    def end_of_term(self, index: int) -> int:
        """Return the index behind a product of operands."""
        index = self.end_of_primary(index)
        while self.at(index) in _MULTIPLIES:
            index = self.end_of_primary(index + 1)
        return index

    def end_of_expression(self, index: int) -> int:
        """Return the index of the `;`, `,` or closing bracket that ends the expression at `index`.

        The end of the code stands for an expression of more than LONGEST_WORDS words.
        """
        last = index + LONGEST_WORDS
        while index < len(self.words) and self.at(index) not in (";", ",", ")", "]", "}"):
            if index > last:
                return len(self.words)
            skipped = index in self.angles and self.at(index) == "<"
            index = self.angles[index] + 1 if skipped else self._step(index)
        return index

    def arguments(self, index: int) -> list[tuple[int, int]]:
        """Return the (start, end) of each argument in the brackets that open at `index`."""
        found, position, end = [], index + 1, self.closing(index)
        while position < end:
            stop = self.end_of_expression(position)
            found.append((position, stop))
            position = stop + 1
        return found

    def _step(self, index: int) -> int:
        return self.closing(index) + 1 if self.at(index) in _OPENING else index + 1


def _drop_directives(body: str, offset: int) -> Iterator[Lexeme]:
    """Yield the tokens that are neither blank nor in a preprocessor line, nor in the part that `#if 0` leaves out."""
    directive: list[str] = []
    fresh, skipped, place = True, 0, offset
    for token in tokenize(body):
        place += len(token.text)
        if directive and is_blank(token) and _ends_line(token.text):
            skipped, directive = _follow(skipped, "".join(directive).split()), []
        if is_blank(token):
            fresh = fresh or "\n" in token.text
            directive.extend([" "] if directive else [])
        elif directive or (fresh and token.text in ("#", "%:")):
            directive.append(token.text)
            fresh = False
        else:
            fresh = False
            if not skipped:
                yield Lexeme(token.kind, token.text, place - len(token.text), place)


def _ends_line(blank: str) -> bool:
    return "\n" in re.sub(r"\\\r?\n", "", blank) if not blank.startswith("/*") else False


def _follow(skipped: int, words: list[str]) -> int:
    """Return how many conditionals are open in a part that is left out, 0 outside, after one more directive."""
    name = words[0].lstrip("#%:") or (words[1] if len(words) > 1 else "")
    if not skipped:
        return int(name == "if" and words[-1] == "0")
    if name in ("else", "elif") and skipped == 1:
        return 0
    return skipped + name.startswith("if") - (name == "endif")


def _join_operators(words: Iterable[Lexeme]) -> Iterator[Lexeme]:
    kept: Lexeme | None = None
    for word in words:
        if kept and word.start == kept.end and kept.text + word.text in _OPERATORS:
            yield Lexeme(TokenKind.SYMBOL, kept.text + word.text, kept.start, word.end)
            kept = None
            continue
        if kept:
            yield kept
        kept = word
    if kept:
        yield kept


def _drop_dead(words: Sequence[Lexeme], launched: set[str]) -> Iterator[Lexeme]:
    """Yield the words of the definitions that the launched kernels reach by name."""
    chunks = list(_definitions(words))
    named = [set(_defined(chunk)) for chunk in chunks]
    live = {k for k, names in enumerate(named) if names & launched or not names}
    while True:
        used = {word.text for k in live for word in chunks[k] if word.kind is TokenKind.NAME}
        more = {k for k, names in enumerate(named) if names & used} | live
        if more == live:
            break
        live = more
    for k in sorted(live):
        yield from chunks[k]


def _definitions(words: Sequence[Lexeme]) -> Iterator[list[Lexeme]]:
    """Split at the semicolons and closing braces outside all brackets."""
    chunk: list[Lexeme] = []
    depth = 0
    for word in words:
        chunk.append(word)
        depth += (word.text in _OPENING) - (word.text in _OPENING.values())
        if depth <= 0 and word.text in (";", "}"):
            yield chunk
            chunk, depth = [], 0
    if chunk:
        yield chunk


def _defined(chunk: Sequence[Lexeme]) -> Iterator[str]:
    """Yield the names that a definition could be called by: before a bracket, `=` or the end, outside brackets."""
    if chunk[0].text in ("namespace", "extern") or [w.text for w in chunk[:2]] == ["using", "namespace"]:
        return
    depth = 0
    for word, after in pairwise(chunk):
        names = depth == 0 and word.kind is TokenKind.NAME and word.text not in _NAMES_NOTHING
        if names and after.text in ("(", "{", "=", ";", "[", "<", ":"):
            yield word.text
        depth += (word.text in _OPENING) - (word.text in _OPENING.values())


def _drop_assertions(words: Sequence[Lexeme]) -> Iterator[Lexeme]:
    """Leave out `static_assert(...)`, which says nothing about what is computed."""
    closing = _match_brackets(words)
    index = 0
    while index < len(words):
        if words[index].text == "static_assert":
            index = closing.get(index + 1, index) + 1
        else:
            yield words[index]
            index += 1


def _match_brackets(words: Sequence[Lexeme]) -> dict[int, int]:
    found: dict[int, int] = {}
    open_at: list[int] = []
    for index, word in enumerate(words):
        if word.text in _OPENING:
            open_at.append(index)
        elif word.text in _OPENING.values() and open_at:
            found[open_at.pop()] = index
    return found


def _match_angles(words: Sequence[Lexeme], closing: dict[int, int]) -> dict[int, int]:
    """Return the partner of each angle bracket of a template: behind a name, and closed before the expression ends."""
    found: dict[int, int] = {}
    for index, word in enumerate(words):
        if word.text == "<" and index and words[index - 1].kind is TokenKind.NAME and index not in found:
            found |= _close_angle(words, index, closing)
    return found


def _close_angle(words: Sequence[Lexeme], index: int, closing: dict[int, int]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    open_at = [index]
    position = index + 1
    while position < len(words):
        text = words[position].text
        if text in _NEVER_TEMPLATE:
            return {}
        if text == "<" and words[position - 1].kind is TokenKind.NAME:
            open_at.append(position)
        elif text == ">":
            start = open_at.pop()
            pairs |= {start: position, position: start}
            if not open_at:
                return pairs
        position = closing.get(position, len(words)) + 1 if text in _OPENING else position + 1
    return {}
