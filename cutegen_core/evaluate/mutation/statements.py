"""Mutate whole statements: conditions, loops, barriers, waits, accumulations, assignments, declared values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cutegen_core.evaluate.mutation.code import LiveCode
from cutegen_core.evaluate.mutation.edit import Edit, MutantKind

_NOTHING = "((void)0)"
_BARRIER = re.compile(r"__sync(?:threads|warp)\w*|__threadfence\w*|cluster_(?:sync|arrive\w*)|sync|thread_rank_sync")
_WAIT = re.compile(
    r"cp_async_(?:wait\w*|fence)|warpgroup_(?:wait|arrive|commit_batch|fence_operand)|wait\w*|tma_store_(?:wait|arrive)"
    r"|fence_\w+|\w*mbarrier\w*|arrive\w*|commit\w*|__pipeline_\w+"
)
_CONTROL = ("for", "if", "while", "return", "else", "do", "switch")
_FIXED = frozenset({"float", "double", "INFINITY", "FLT_MAX", "static_cast"})
_NARROW = ("cute::half_t", "cute::tfloat32_t")
_CAPPED_EXTENTS = (4096, 10_000)
_CAPPED_VALUE = "88.0f"


def fix_conditions(code: LiveCode) -> Iterator[Edit]:
    """Make a condition hold always, or never."""
    for index in range(len(code)):
        if code.at(index) in ("if", "while") and code.at(index + 1) == "(" and code.closing(index + 1) < len(code):
            start, end = code.words[index + 1].end, code.words[code.closing(index + 1)].start
            yield Edit(MutantKind.CONDITION, start, end, "false")
            if code.at(index) == "if":
                yield Edit(MutantKind.CONDITION, start, end, "true")
        elif code.at(index) == "?":
            yield from _fix_choice(code, index)


def _fix_choice(code: LiveCode, index: int) -> Iterator[Edit]:
    """Replace `condition ? a : b` by one of its values, where the values end is plain to see."""
    end = code.end_of_expression(index + 1)
    if end == len(code):
        return
    depth, colon = 0, -1
    position = index + 1
    while position < end and colon < 0:
        depth += code.at(position) == "?"
        if code.at(position) == ":":
            colon, depth = (position, depth) if depth == 0 else (-1, depth - 1)
        position = code.closing(position) + 1 if code.at(position) in ("(", "[", "{") else position + 1
    if colon > 0 and index > 0:
        start = code.words[index].start
        yield Edit(MutantKind.CONDITION, start, start, "&& false ")
        yield Edit(MutantKind.CONDITION, start, start, "|| true ")


def mutate_loops(code: LiveCode) -> Iterator[Edit]:
    """Start a loop one later, and cut its bound off where only large sizes reach it."""
    for index in range(len(code)):
        if code.at(index) != "for" or code.at(index + 1) != "(":
            continue
        first = code.end_of_expression(index + 2)
        while code.at(first) == ",":
            first = code.end_of_expression(first + 1)
        second = code.end_of_expression(first + 1)
        if code.at(first) != ";" or code.at(second) != ";":
            continue
        place = code.words[first].start
        yield Edit(MutantKind.INDEX, place, place, " + 1")
        bound = next((k for k in range(first, second) if code.at(k) in ("<", "<=") and k not in code.angles), second)
        words = {code.at(k) for k in range(bound, second)}
        varies = any(word.isidentifier() and not word.isupper() for word in words)
        if bound + 1 < second and varies and not {"&&", "||"} & words:
            start, end = code.words[bound + 1].start, code.words[second - 1].end
            text = code.text[start:end]
            for most in _CAPPED_EXTENTS:
                yield Edit(MutantKind.CAP, start, end, f"(({text}) < {most} ? ({text}) : {most})")


def drop_synchronisation(code: LiveCode) -> Iterator[Edit]:
    """Leave a barrier or a wait out, weaken it, or wait for one group less."""
    for start, end in _call_statements(code):
        name = _called(code, start, end)
        kind = MutantKind.BARRIER if _BARRIER.fullmatch(name) else MutantKind.WAIT if _WAIT.fullmatch(name) else None
        if kind is None:
            continue
        place, stop = code.words[start].start, code.words[end - 1].end
        yield Edit(kind, place, stop, _NOTHING)
        if name == "__syncthreads":
            yield Edit(kind, place, stop, "__syncwarp()")
        opening = next((k for k in range(start, end) if code.at(k) == "<" and k in code.angles), -1)
        if opening >= 0 and code.is_number(opening + 1):
            number = code.words[opening + 1]
            yield Edit(kind, number.start, number.end, str(int(number.text) + 1))


def _call_statements(code: LiveCode) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each statement that is one call; `end` is its semicolon."""
    for index in range(1, len(code)):
        if code.at(index - 1) in (";", "{", "}", ")", "else") and code.is_name(index):
            end = code.end_of_primary(index)
            if code.at(end) == ";" and code.at(end - 1) == ")" and code.at(index) not in _CONTROL:
                yield index, end


def _called(code: LiveCode, start: int, end: int) -> str:
    """Return the last name before the arguments: `sync` of `cg::sync(block)` and of `block.sync()`."""
    opening = next(k for k in range(end - 1, start, -1) if code.closing(k) == end - 1)
    before = code.angles.get(opening - 1, opening)
    return code.at(before - 1)


def drop_statements(code: LiveCode) -> Iterator[Edit]:
    """Leave out an assignment or a call that is no barrier."""
    for start, end in _call_statements(code):
        name = _called(code, start, end)
        if not _BARRIER.fullmatch(name) and not _WAIT.fullmatch(name):
            yield Edit(MutantKind.STATEMENT, code.words[start].start, code.words[end - 1].end, _NOTHING)
    for start, sign, end in _assignments(code):
        yield Edit(MutantKind.STATEMENT, code.words[start].start, code.words[end - 1].end, _NOTHING)
        if code.at(sign) in ("+=", "-=", "*=", "|=", "^="):
            yield Edit(MutantKind.REDUCTION, code.words[sign].start, code.words[sign].end, "=")
        if code.at(sign) == "+=":
            yield Edit(MutantKind.REDUCTION, code.words[sign].start, code.words[sign].end, "-=")


def _assignments(code: LiveCode) -> Iterator[tuple[int, int, int]]:
    """Yield (start, sign, end) of each assignment to something that was declared before; `end` is its semicolon."""
    for index in range(1, len(code)):
        if code.at(index - 1) in (";", "{", "}", ")", "else") and (code.is_name(index) or code.at(index) == "*"):
            sign = code.end_of_primary(index)
            if code.at(sign) in ("=", "+=", "-=", "*=", "/=", "|=", "^=", "&="):
                end = code.end_of_expression(sign + 1)
                if code.at(end) == ";":
                    yield index, sign, end


def round_values(code: LiveCode) -> Iterator[Edit]:
    """Round a float to a narrower type where it is declared or accumulated, or cut it off at large values."""
    floats = {code.at(k + 1 + (code.at(k + 1) == "const")) for k in range(len(code)) if code.at(k) == "float"}
    for index in range(2, len(code)):
        if code.at(index) not in ("=", "+=") or code.at(index - 1) not in floats or code.at(index - 2) in (".", "->"):
            continue
        declared = code.at(index - 2) == "float" or (code.at(index - 2), code.at(index - 3)) == ("const", "float")
        end = code.end_of_expression(index + 1)
        start, stop = code.words[index + 1].start, code.words[end - 1].end
        varies = any(code.is_name(k) and code.at(k) not in _FIXED for k in range(index + 1, end))
        if (code.at(index) == "=" and not declared) or code.at(end) not in (";", ",") or not varies:
            continue
        text = code.text[start:stop]
        for narrow in _NARROW:
            yield Edit(MutantKind.PRECISION, start, stop, f"float({narrow}({text}))")
        yield Edit(MutantKind.CAP, start, stop, f"fminf({text}, {_CAPPED_VALUE})")
        yield Edit(MutantKind.CAP, start, stop, f"fmaxf({text}, -{_CAPPED_VALUE})")


def halve_launch_bounds(code: LiveCode) -> Iterator[Edit]:
    """Promise the compiler smaller blocks than the plan launches."""
    for index in range(len(code)):
        if code.at(index) == "__launch_bounds__" and code.at(index + 1) == "(":
            start, end = code.arguments(index + 1)[0]
            place, stop = code.words[start].start, code.words[end - 1].end
            yield Edit(MutantKind.LAUNCH, place, stop, f"({code.text[place:stop]}) / 2")


STATEMENT_EDITS: tuple[Callable[[LiveCode], Iterator[Edit]], ...] = (
    fix_conditions, mutate_loops, drop_synchronisation, drop_statements, round_values, halve_launch_bounds,
)  # fmt: skip
