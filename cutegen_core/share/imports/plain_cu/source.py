"""Split a `.cu` into what stays in a kernel file and what is host code, without a compiler's front end.

Comments and strings are blanked first and directives taken out, so offsets are those of the original text. An item is a
declaration or a definition at file or namespace level.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cutegen_core.kernel.screening import blank_comments
from cutegen_core.share.imports.plain_cu.directives import HOST_WORDS, Macro, read_directives
from cutegen_core.share.imports.plain_cu.tokens import CodeToken, close_angle, find_close, split_commas, tokenize

_ATTRIBUTES = frozenset(("__launch_bounds__", "__attribute__", "__cluster_dims__", "alignas", "decltype", "noexcept"))
_TYPE_WORDS = frozenset(("struct", "class", "union", "enum"))


class Variable(NamedTuple):
    """A parameter of a function or of a template."""

    type: str
    name: str
    default: str = ""

    @property
    def is_pointer(self) -> bool:
        return "*" in self.type

    @property
    def is_const(self) -> bool:
        return bool(re.match(r"(?:\w+ )*const\b", self.type)) or " const *" in self.type


@dataclass(frozen=True)
class CudaFunction:
    """A function of the file.

    Attributes:
        scope: namespaces around it, "a::b".
        head: return type, name and parameters as written.
        body: tokens between the braces; empty for a declaration.
    """

    name: str
    scope: str
    head: str
    parameters: tuple[Variable, ...]
    template: tuple[Variable, ...]
    body: tuple[CodeToken, ...]
    at: int

    @property
    def qualified(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name


@dataclass
class SourceFile:
    """A file that was split.

    Attributes:
        dropped: ranges of the text that are host code.
        ranges: where each function stands, with its template head.
        left_out: includes of the project's own headers.
        constants: values of `const int X = 256;` at file level, as tokens.
    """

    name: str
    text: str
    code: str
    macros: dict[str, Macro] = field(default_factory=dict)
    kernels: dict[str, CudaFunction] = field(default_factory=dict)
    hosts: dict[str, CudaFunction] = field(default_factory=dict)
    constants: dict[str, tuple[CodeToken, ...]] = field(default_factory=dict)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def original(self, tokens: Sequence[CodeToken]) -> str:
        """Return the tokens as they are written in the file, on one line."""
        if not tokens:
            return ""
        first, last = tokens[0], tokens[-1]
        written = self.text[first.at : last.at + len(last.text)] if last.at >= first.at else ""
        return " ".join((written or " ".join(t.text for t in tokens)).split())

    def device_text(self) -> str:
        """Return the file without its host code."""
        kept, at = [], 0
        for begin, end in sorted(self.dropped):
            if begin >= at:
                kept.append(self.text[at:begin])
            at = max(at, end)
        return "".join((*kept, self.text[at:]))


def split_file(name: str, text: str) -> SourceFile:
    """Split a file at its top level."""
    code = blank_comments(text)
    said = read_directives(text, code)
    found = SourceFile(name, text, code, said.macros, dropped=said.dropped, left_out=said.left_out)
    _split(found, tokenize(said.bare), "")
    return found


def _split(found: SourceFile, tokens: Sequence[CodeToken], scope: str) -> None:
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text in (";", "}"):
            index += 1
        elif text == "namespace" and (brace := _brace_of_namespace(tokens, index)) > 0:
            close = find_close(tokens, brace)
            named = "".join(t.text for t in tokens[index + 1 : brace])
            _split(found, tokens[brace + 1 : close], "::".join(filter(None, (scope, named))))
            index = close + 1
        elif text == "extern" and index + 1 < len(tokens) and tokens[index + 1].text == '""':
            index = _skip_extern(found, tokens, index, scope)
        else:
            end = _end_of_item(found, tokens, index)
            _take_item(found, tokens[index:end], scope)
            index = end


def _brace_of_namespace(tokens: Sequence[CodeToken], index: int) -> int:
    for position in range(index + 1, min(index + 12, len(tokens))):
        if tokens[position].text == "{":
            return position
        if tokens[position].text in (";", "="):
            return -1
    return -1


def _skip_extern(found: SourceFile, tokens: Sequence[CodeToken], index: int, scope: str) -> int:
    """Drop `extern "C"`, which hides parameter types, and the braces of its block."""
    begin, opening = tokens[index].at, tokens[index + 2] if index + 2 < len(tokens) else None
    string_end = found.text.find('"', found.text.find('"', begin) + 1) + 1
    found.dropped.append((begin, string_end))
    if opening is None or opening.text != "{":
        return index + 2
    close = find_close(tokens, index + 2)
    found.dropped += [(opening.at, opening.at + 1), (tokens[close].at, tokens[close].at + 1)]
    _split(found, tokens[index + 3 : close], scope)
    return close + 1


def _end_of_item(found: SourceFile, tokens: Sequence[CodeToken], index: int) -> int:
    position = index
    is_type = False
    while position < len(tokens):
        text = tokens[position].text
        if text == ";":
            return position + 1
        if text == "template" and position + 1 < len(tokens) and tokens[position + 1].text == "<":
            position = max(close_angle(tokens, position + 1), position + 1) + 1
            continue
        is_type |= text in _TYPE_WORDS
        if text == "{":
            close = find_close(tokens, position)
            is_value = any(t.text == "=" for t in tokens[index:position]) and not _has_parameters(
                tokens[index:position]
            )
            if not (is_type or is_value):
                return close + 1
            position = close + 1
            continue
        if text in ("(", "["):
            close = find_close(tokens, position)
            is_type = False
            if _is_macro_call(found, tokens, index, position, close):
                return close + 1
            position = close + 1
            continue
        position += 1
    return len(tokens)


def _has_parameters(tokens: Sequence[CodeToken]) -> bool:
    return any(t.text == ")" for t in tokens)


def _is_macro_call(found: SourceFile, tokens: Sequence[CodeToken], begin: int, opening: int, close: int) -> bool:
    """Tell whether the item is a call of a macro that no semicolon ends."""
    named = opening == begin + 1 and tokens[begin].text in found.macros
    after = tokens[close + 1].text if close + 1 < len(tokens) else ""
    return named and after not in (";", "{")


def _take_item(found: SourceFile, item: Sequence[CodeToken], scope: str) -> None:
    texts = [token.text for token in item]
    brace = next((i for i, text in enumerate(texts) if text == "{"), len(item))
    head = texts[:brace]
    begin, end = item[0].at, item[-1].at + len(item[-1].text)
    function = _function(found, item, brace, scope)
    if function is not None and texts[-1] == "}":
        found.ranges[function.name] = begin, end
    if "__global__" in head and function is not None:
        if texts[-1] == "}":
            found.kernels[function.name] = function
        return
    if "__device__" in head or "__constant__" in head or _is_type(head):
        if HOST_WORDS.search(found.code[begin:end]):
            found.dropped.append((begin, end))
        return
    if function is not None and (texts[-1] == "}" or function.name in found.hosts):
        if function.body and not re.fullmatch(r"[A-Z\d_]+", function.name):  # PYBIND11_MODULE and its like
            found.hosts[function.name] = function
        if "constexpr" not in head or HOST_WORDS.search(found.code[begin:end]):
            found.dropped.append((begin, end))
        return
    if _is_constant(found, item, texts):
        return
    names_type = bool(head) and head[0] in ("using", "typedef", "static_assert") and "std" not in head
    if names_type and not HOST_WORDS.search(found.code[begin:end]):
        return
    found.dropped.append((begin, end))


def _is_type(head: Sequence[str]) -> bool:
    outside = head[close_angle([CodeToken(t, 0) for t in head], 1) + 1 :] if head[:2] == ["template", "<"] else head
    return bool(outside) and (outside[0] in _TYPE_WORDS or outside[:2] == ["typedef", "struct"])


def _is_constant(found: SourceFile, item: Sequence[CodeToken], texts: Sequence[str]) -> bool:
    """Note `const int X = 256;`, which device code and plan may use."""
    if "=" not in texts or not {"const", "constexpr"} & set(texts) or "(" in texts[: texts.index("=")]:
        return False
    at = texts.index("=")
    if "*" in texts[:at]:
        return False
    if not re.fullmatch(r"[^\W\d]\w*", texts[at - 1]):
        return "constexpr" in texts
    found.constants[texts[at - 1]] = tuple(item[at + 1 : -1])
    return True


def _function(found: SourceFile, item: Sequence[CodeToken], brace: int, scope: str) -> CudaFunction | None:
    """Read a function's head; None for what is no function."""
    index = 0
    template: tuple[Variable, ...] = ()
    while index + 1 < brace and item[index].text == "template" and item[index + 1].text == "<":
        close = close_angle(item, index + 1)
        if close < 0:
            return None
        template = tuple(_variable(part) for part in split_commas(item[index + 2 : close], angles=True))
        index = close + 1
    start = index
    while index < brace:
        text = item[index].text
        if text == "(" and index > start and re.fullmatch(r"[^\W\d]\w*", item[index - 1].text):
            close = find_close(item, index)
            if item[index - 1].text not in _ATTRIBUTES:
                break
            index = close
        elif text == "=":
            return None
        index += 1
    else:
        return None
    named, close = item[index - 1], find_close(item, index)
    parameters = tuple(_variable(p) for p in split_commas(item[index + 1 : close], angles=True) if p)
    body = tuple(item[brace + 1 : -1]) if brace < len(item) else ()
    head = " ".join(found.code[item[start].at : item[close].at + 1].split())
    void = len(parameters) == 1 and (parameters[0].type, parameters[0].name) == ("", "void")
    return CudaFunction(named.text, scope, head, () if void else parameters, template, body, named.at)


def _variable(tokens: Sequence[CodeToken]) -> Variable:
    """Read `const float* __restrict__ x = nullptr`."""
    texts = [t.text for t in tokens if t.text not in ("__restrict__", "__restrict", "__grid_constant__", "restrict")]
    default = ""
    if "=" in texts:
        at = texts.index("=")
        default, texts = " ".join(texts[at + 1 :]), texts[:at]
    while texts and texts[-1] == "]":
        del texts[len(texts) - 1 - texts[::-1].index("[") :]
        texts.insert(-1, "*")
    if not texts:
        return Variable("", "", default)
    return Variable(" ".join(texts[:-1]).replace(" :: ", "::"), texts[-1], default)
