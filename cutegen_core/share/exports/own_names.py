"""Let a kernel's code stand in one file with other code: its macros end with it, its names lie in a namespace.

1. `between_macros`: what the kernel defines as a macro means after it what it meant before.
2. `enclose`: declarations go into a namespace of their own, includes stay outside of it.
3. `digest`: what is built from different texts has different names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cutegen_core.kernel.screening import blank_comments
from cutegen_core.share.imports.plain_cu.directives import read_directives
from cutegen_core.share.imports.plain_cu.tokens import CodeToken, find_close, tokenize

_MACRO = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n?", re.MULTILINE)
_LEADING = re.compile(r"(?:[ \t]*(?:#[ \t]*include\b[^\n]*)?\n)*")
_FROM_GLOBAL = re.compile(r"(?<![\w>])::\s*([^\W\d]\w*)")
_OPENING = "([{"
_LONGEST_NAME = 12
"""Tokens of the longest name of a namespace."""

_DECLARES = frozenset(("(", "=", ";", "{", "[", ":", ","))
_LIBRARIES = frozenset(("cute", "cutlass", "cuda", "std", "cub", "thrust", "cooperative_groups", "nvcuda", "nv"))
"""Namespaces of headers: what a kernel adds to them must stay theirs."""

_OVERLOADED = """
    abs acos asin atan atan2 ceil cos cosh erf exp exp2 fabs floor fma fmax fmin fmod isfinite isinf isnan log log10
    log1p log2 max min pow round rsqrt sin sinh sqrt tan tanh trunc
    atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS atomicAnd atomicOr atomicXor
    __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ldg __ldcg __ldca __ldcs __stcg __stcs
    __hadd __hsub __hmul __hfma __hmax __hmin __hadd2 __hmul2 __hfma2 __hmax2 __hmin2
    __half2float __float2half __float2bfloat16 __bfloat162float
"""
OVERLOADED = frozenset(_OVERLOADED.split())
"""Functions of CUDA that kernels overload: an overload in a namespace would hide them."""


class Enclosed(NamedTuple):
    """A kernel's code in a namespace, and the includes that it begins with."""

    includes: str
    body: str


def digest(*texts: str) -> str:
    """Return what differs where a text differs, for names."""
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:12]


def between_macros(text: str) -> str:
    """Return a text whose macros mean after it what they meant before it."""
    names = list(dict.fromkeys(_MACRO.findall(blank_comments(text))))
    before = "".join(f'#pragma push_macro("{name}")\n#undef {name}\n' for name in names)
    after = "".join(f'#pragma pop_macro("{name}")\n' for name in names)
    return f"{before}{text}{after}"


def enclose(body: str, scope: str) -> Enclosed:
    """Return the body for `namespace SCOPE { ... }`; what must lie outside closes the namespace and opens it again."""
    code = blank_comments(body)
    leading = _LEADING.match(code)
    begin = leading.end() if leading else 0
    tokens = tokenize(read_directives(body, code).bare)
    own = _own_names(tokens)
    edits = [*_outside(code, tokens, begin, scope), *_qualified(code, own, scope)]
    text, at = "", begin
    for first, last, new in sorted(edits):
        text += body[at:first] + new
        at = last
    using = "".join(f"using ::{name};\n" for name in sorted(_functions(tokens) & OVERLOADED))
    return Enclosed(body[:begin], f"{using}{text}{body[at:]}")


def in_namespace(text: str, scope: str) -> str:
    """Return a text of ours in a namespace, its includes in front."""
    includes = "".join(dict.fromkeys(_INCLUDE.findall(text)))
    return f"{includes}\nnamespace {scope} {{\n\n{_INCLUDE.sub('', text)}\n}}  // namespace {scope}\n"


def _outside(code: str, tokens: Sequence[CodeToken], begin: int, scope: str) -> Iterator[tuple[int, int, str]]:
    """Yield what leaves the namespace around an include or a part of a library's namespace, and comes back."""
    closing, opening = f"}}  // namespace {scope}\n", f"namespace {scope} {{\n"
    braces = list(_braces(tokens))
    for match in _INCLUDE.finditer(code, begin):
        if not any(first < match.start() < last for first, last, _ in braces):
            yield match.start(), match.start(), closing
            yield match.end(), match.end(), opening
    for first, last, named in braces:
        if named and named.split("::")[0] in _LIBRARIES:
            start = code.rindex("namespace", 0, first)
            yield start, start, closing
            yield first + 1, first + 1, f" using namespace ::{scope};"
            yield last + 1, last + 1, f"\n{opening}"


def _braces(tokens: Sequence[CodeToken]) -> Iterator[tuple[int, int, str | None]]:
    """Yield where the outermost braces begin and end, with the name of a namespace, None for other braces."""
    index = 0
    while index < len(tokens):
        if tokens[index].text == "{":
            close = find_close(tokens, index)
            yield tokens[index].at, tokens[close].at, _namespace(tokens[:index])
            index = close
        index += 1


def _namespace(before: Sequence[CodeToken]) -> str | None:
    words: list[str] = []
    for token in reversed(before[-_LONGEST_NAME:]):
        if token.text == "namespace":
            return "".join(reversed(words))
        if not re.fullmatch(r"\w+|::", token.text):
            break
        words.append(token.text)
    return None


def _qualified(code: str, own: frozenset[str], scope: str) -> Iterator[tuple[int, int, str]]:
    """Yield the places where a name of the body is asked of the global namespace, where it no longer is."""
    for match in _FROM_GLOBAL.finditer(code):
        if match[1] in own:
            yield match.start(1), match.start(1), f"{scope}::"


def _outermost(tokens: Sequence[CodeToken]) -> Iterator[tuple[CodeToken, CodeToken]]:
    """Yield each token outside all brackets but those of an unnamed namespace, and the next one."""
    index = 0
    while index + 1 < len(tokens):
        yield tokens[index], tokens[index + 1]
        opens = tokens[index].text in _OPENING and not (tokens[index].text == "{" and _namespace(tokens[:index]) == "")
        index = find_close(tokens, index) if opens else index
        index += 1


def _own_names(tokens: Sequence[CodeToken]) -> frozenset[str]:
    """Return what the body declares at its outermost level; what stands between `=` and `;` is used there."""
    found, value = set(), False
    for token, following in _outermost(tokens):
        value = (value or token.text == "=") and token.text not in (";", "{", "}")
        if following.text in _DECLARES and re.match(r"\w", token.text) and not (value and following.text in (";", ",")):
            found.add(token.text)
    return frozenset(found) - _LIBRARIES


def _functions(tokens: Sequence[CodeToken]) -> frozenset[str]:
    return frozenset(token.text for token, following in _outermost(tokens) if following.text == "(")
