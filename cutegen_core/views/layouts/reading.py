"""Find the layouts, tiled copies and tiled MMAs that a kernel's text declares, each with the declarations it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_DECLARED = re.compile(
    r"\b(?:(?P<using>using)\s+(?P<type>\w+)|(?:static\s+)?(?P<constexpr>constexpr)\s+(?:\w[\w:]*\s+)+?(?P<number>\w+)"
    r"|(?P<auto>auto)\s+(?:const\s+)?(?P<value>\w+))\s*=(?!=)\s*"
)
_DRAWN = re.compile(
    r"\b(?:make_layout|make_ordered_layout|composition|tile_to_shape|make_tiled_copy\w*|make_tiled_mma|logical_divide|"
    r"zipped_divide|tiled_divide|logical_product|blocked_product|raked_product|TiledMMA|TiledCopy|ComposedLayout|Layout)\b"
)
_MOVING = re.compile(r"\b(?:make_tensor\w*|threadIdx|blockIdx|blockDim|gridDim|make_gmem_ptr|make_smem_ptr)\b|\[[&=]\]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Declared:
    """A layout or partition in a kernel's text.

    Attributes:
        expression: what is evaluated; a type is default-constructed.
        before: the declarations it needs, in order, as statements.
        line: of the kernel file.
    """

    name: str
    expression: str
    before: tuple[str, ...]
    line: int


def find(source: str, params: Mapping[str, int | float]) -> tuple[Declared, ...]:
    """Return everything in the kernel that can be drawn, in its order. Names in `params` are constants."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    known: dict[str, str] = {name: f"constexpr auto {name} = {value};" for name, value in params.items()}
    needs: dict[str, tuple[str, ...]] = dict.fromkeys(known, ())
    found = []
    for name, is_type, keyword, expression, line in _declarations(code):
        statement = f"{keyword} {name} = {expression};"
        names = tuple(dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*\b", expression)))
        if _MOVING.search(expression):
            continue
        if _DRAWN.search(expression) and not (is_type and "Copy_Atom" in expression.split("<")[0]):
            value = f"{name}{{}}" if is_type else name
            found.append(Declared(name, value, (*_closure(names, known, needs), statement), line))
        known[name], needs[name] = statement, names
    return tuple(found)


def _declarations(code: str) -> Iterator[tuple[str, bool, str, str, int]]:
    """Yield name, whether it is a type, keyword, expression and line of each declaration."""
    for match in _DECLARED.finditer(code):
        expression = _expression(code, match.end())
        name = match["type"] or match["number"] or match["value"]
        keyword = "using" if match["using"] else "constexpr auto" if match["constexpr"] else "auto"
        if expression and name:
            line = code.count("\n", 0, match.start()) + 1
            yield name, bool(match["using"]), keyword, " ".join(expression.split()), line


def _expression(code: str, begin: int) -> str:
    """Return the text up to the semicolon that ends the statement; "" if there is none."""
    depth = 0
    for at in range(begin, min(len(code), begin + 4000)):
        letter = code[at]
        depth += (letter in "({[") - (letter in ")}]")
        if letter == ";" and depth == 0:
            return code[begin:at]
        if depth < 0:
            return ""
    return ""


def _closure(names: Sequence[str], known: Mapping[str, str], needs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the statements behind the names, and behind what those need, in the order of the text."""
    wanted: set[str] = set()
    waiting = [name for name in names if name in known]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += [n for n in needs[name] if n in known and n != name]
    return tuple(statement for name, statement in known.items() if name in wanted)
