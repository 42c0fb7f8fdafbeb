"""Read a file's preprocessor directives: macros, includes, and the branches that host compilers leave out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cutegen_core.kernel.expressions import ExpressionError, Scope, parse_expression
from cutegen_core.share.imports.plain_cu.tokens import Token, find_close, split_commas, tokenize

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\)*", re.MULTILINE)
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?((?:[^\n\\]|\\\r?\n|\\)*)")
_ALLOWED = re.compile(
    r"#\s*include\s*<(?:(?:cute|cutlass|cub|cooperative_groups|nv)/[\w/.+-]+|cuda/[\w/.+-]+|cuda_(?:fp16|bf16|fp8|fp6|fp4)"
    r"\.h(?:pp)?|cooperative_groups\.h|mma\.h|math_constants\.h|vector_types\.h|cstdint|stdint\.h|cfloat|climits|float\.h"
    r"|limits\.h|type_traits|limits|cmath|math\.h|cstddef)>"
)
HOST_WORDS = re.compile(
    r"<<<|\b(?:torch|at|c10|std::cout|pybind11)\s*::|\bcuda(?:Error|Get|Malloc|Free|Memcpy|Launch|Stream|Device)\w*"
    r"|\b(?:printf|fprintf|exit|std::vector|TORCH_\w+|AT_DISPATCH\w*|PYBIND11_MODULE)\b"
)
_DEFINED = {"__CUDACC__": 1, "__NVCC__": 1, "CUDART_VERSION": 13000, "CUDA_VERSION": 13000, "__cplusplus": 201703}
"""What a compiler of CUDA defines; anything else that the file does not define counts as undefined."""


class Macro(NamedTuple):
    """A macro of the file; `parameters` is None for one without brackets."""

    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


class Directives(NamedTuple):
    """What a file's directives say.

    Attributes:
        dropped: ranges of the text that are the host's.
        left_out: includes of the project's own headers.
        bare: the blanked text without directives and without branches that are not compiled.
    """

    macros: dict[str, Macro]
    dropped: list[tuple[int, int]]
    left_out: list[str]
    bare: str


def read_directives(text: str, code: str) -> Directives:
    """Read the directives of a file.

    Args:
        code: the text with comments and strings blanked.
    """
    found = Directives({}, [], [], "")
    branches = _Branches(found.macros)
    quiet: list[tuple[int, int]] = []
    at = 0
    for match in _DIRECTIVE.finditer(code):
        if not branches.active:
            quiet.append((at, match.start()))
            found.dropped.append((at, max(at, match.start() - 1)))
        at = match.end()
        quiet.append(match.span())
        word = re.match(r"\s*#\s*(\w*)", match[0])
        if branches.take(word[1] if word else "", match[0]):
            continue
        if branches.active:
            _take(found, text, match[0], match.start(), match.end())
        else:
            found.dropped.append(match.span())
    bare = list(code)
    for begin, end in quiet:
        bare[begin:end] = re.sub(r"[^\n]", " ", code[begin:end])
    return found._replace(bare="".join(bare))


class _Branches:
    """Follows `#if` to `#endif`; a condition that cannot be read keeps both branches."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self._macros = macros
        self._open: list[tuple[bool, bool]] = []
        """For each open `#if`: whether its present branch counts, and whether one before it did."""

    @property
    def active(self) -> bool:
        return all(counts for counts, _ in self._open)

    def take(self, word: str, text: str) -> bool:
        """Take a directive; return False if it is not about branches."""
        rest = re.sub(r"\\\r?\n", " ", text.partition(word)[2]).strip()
        if word in ("if", "ifdef", "ifndef"):
            value = self._value(word, rest)
            self._open.append((value is not False, value is True))
        elif word in ("elif", "else") and self._open:
            _, before = self._open[-1]
            value = True if word == "else" else self._value("if", rest)
            self._open[-1] = (not before and value is not False, before or value is True)
        elif word == "endif" and self._open:
            self._open.pop()
        else:
            return False
        return True

    def _value(self, word: str, condition: str) -> bool | None:
        if word in ("ifdef", "ifndef"):
            return self._is_defined(condition.split()[0] if condition else "") == (word == "ifdef")
        text = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", lambda m: str(int(self._is_defined(m[1] or m[2]))), condition
        )
        text = text.replace("&&", " and ").replace("||", " or ")
        text = re.sub(r"!(?!=)", " not ", text)
        text = re.sub(r"\b(?!and\b|or\b|not\b)[^\W\d]\w*", lambda m: str(_DEFINED.get(m[0], self._number(m[0]))), text)
        try:
            return bool(parse_expression(re.sub(r"(?<=\d)[uUlL]+\b", "", text).strip()).evaluate(Scope()))
        except ExpressionError:
            return None

    def _is_defined(self, name: str) -> bool:
        return name in self._macros or name in _DEFINED

    def _number(self, name: str) -> str:
        macro = self._macros.get(name)
        body = "".join(token.text for token in macro.body) if macro else ""
        return body if body.isdecimal() else "0" if macro is None else name


def _take(found: Directives, text: str, directive: str, begin: int, end: int) -> None:
    """Note a macro; drop what is of the host: its includes, and macros that launch or call torch."""
    if re.match(r"\s*#\s*include\b", directive):
        written = text[begin:end]
        if not _ALLOWED.search(written):
            found.dropped.append((begin, end))
            found.left_out.extend([written.strip()] if '"' in written else [])
        return
    define = _DEFINE.match(directive)
    if not define:
        return
    parameters = tuple(p.strip() for p in define[3].split(",")) if define[2] else None
    body = re.sub(r"\\\r?\n", lambda m: " " * len(m[0]), define[4])
    found.macros[define[1]] = Macro(parameters, tokenize(body, begin + define.start(4)))
    if HOST_WORDS.search(body):
        found.dropped.append((begin, end))


def expand(macros: Mapping[str, Macro], tokens: Sequence[Token], depth: int = 0) -> Iterator[Token]:
    """Expand the file's own macros; a token from a macro keeps its place in the macro."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        macro = macros.get(token.text) if depth < 8 else None
        if macro is None:
            yield token
        elif macro.parameters is None:
            yield from expand(macros, macro.body, depth + 1)
        elif index + 1 < len(tokens) and tokens[index + 1].text == "(":
            close = find_close(tokens, index + 1)
            yield from expand(macros, _call(macro, tokens[index + 2 : close]), depth + 1)
            index = close
        else:
            yield token
        index += 1


def _call(macro: Macro, inside: Sequence[Token]) -> tuple[Token, ...]:
    assert macro.parameters is not None
    given = split_commas(inside)
    named = [p for p in macro.parameters if p != "..."]
    bound = dict(zip(named, given, strict=False))
    if "..." in macro.parameters:
        rest: list[Token] = []
        for part in given[len(named) :]:
            rest += [*([Token(",", part[0].at)] if rest and part else []), *part]
        bound["__VA_ARGS__"] = tuple(rest)
    return tuple(out for token in macro.body for out in bound.get(token.text, (token,)))
