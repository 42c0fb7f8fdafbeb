"""Mutate what stands in an expression: operators, operands, constants, indices, functions, types.

Each function takes the live code and yields edits, in the order of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from cutegen_core.evaluate.mutation.code import LONGEST_WORDS, LiveCode
from cutegen_core.evaluate.mutation.edit import Edit, MutantKind
from cutegen_core.execute.emulator.lexer import TokenKind

_COMPARISONS: Mapping[str, tuple[str, ...]] = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
}  # fmt: skip
_ARITHMETIC: Mapping[str, str] = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "*=": "+=", "-=": "+=", "/=": "*="}
_LOGIC: Mapping[str, str] = {"&&": "||", "||": "&&", "&": "|", "|": "&", "^": "|", "<<": ">>", "^=": "|="}
_NOT_OPERANDS = frozenset(
    """
    return const case else float double int long short char bool unsigned signed void auto typename class volatile
    constexpr static struct template operator __restrict__ half
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
_POINTERS = frozenset({"*", "&"})
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)([uUlLzZ]*)")
_FLOAT = re.compile(r"((?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?)([fFlL]?)")
_STATIC_INTEGER = re.compile(r"_([0-9]+)")
_SMALL = 1e-3
_NUDGE = 1.01
_MOST_DIGITS = 20
_AXES: Mapping[str, str] = {"x": "y", "y": "x", "z": "y"}
_COORDINATES: Mapping[str, str] = {
    "threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim",
}  # fmt: skip
_FUNCTIONS: Mapping[str, str] = {
    "expf": "exp2f", "exp": "exp2", "exp2f": "expf", "__expf": "exp2f", "logf": "log2f", "log": "log2",
    "sqrtf": "rsqrtf", "rsqrtf": "sqrtf", "sqrt": "rsqrt", "tanhf": "sinf", "erff": "tanhf", "fabsf": "", "abs": "",
    "sinf": "cosf", "cosf": "sinf", "floorf": "ceilf", "ceilf": "floorf", "rintf": "truncf", "isnan": "isinf",
    "ceil_div": "safe_div", "log1pf": "logf", "expm1f": "expf", "copysignf": "fmaxf", "fmaf": "fminf",
}  # fmt: skip
_REDUCTIONS: Mapping[str, tuple[str, ...]] = {
    "fmaxf": ("fminf",), "fminf": ("fmaxf",), "max": ("min",), "min": ("max",), "fmax": ("fmin",), "fmin": ("fmax",),
    "atomicAdd": ("atomicExch", "atomicMax"), "atomicMax": ("atomicMin",), "atomicMin": ("atomicMax",),
    "atomicOr": ("atomicAnd",), "atomicAnd": ("atomicOr",), "atomicCAS": (),
    "__shfl_xor_sync": ("__shfl_up_sync", "__shfl_down_sync"), "__shfl_down_sync": ("__shfl_up_sync",),
    "__shfl_up_sync": ("__shfl_down_sync",), "__ballot_sync": ("__any_sync",), "__any_sync": ("__all_sync",),
    "__all_sync": ("__any_sync",), "__reduce_add_sync": ("__reduce_max_sync",), "__popc": ("__clz",),
    "plus": ("greater",), "greater": ("less",), "less": ("greater",),
}  # fmt: skip
_TYPES: Mapping[str, tuple[str, ...]] = {
    "long": ("int",), "int": ("short", "unsigned"), "double": ("float",), "unsigned": ("int",), "int64_t": ("int32_t",),
    "uint32_t": ("int16_t",), "int32_t": ("int16_t",), "float4": ("float3",), "uint8_t": ("int8_t",),
    "int8_t": ("uint8_t",), "half2": ("half",),
}  # fmt: skip


def mutate_comparisons(code: LiveCode) -> Iterator[Edit]:
    for index, word in enumerate(code.words):
        shift = word.text == ">" and ">" in (code.at(index - 1), code.at(index + 1))
        if word.text in _COMPARISONS and index not in code.angles and not shift:
            for after in _COMPARISONS[word.text]:
                yield Edit(MutantKind.COMPARISON, word.start, word.end, after)


def mutate_arithmetic(code: LiveCode) -> Iterator[Edit]:
    """Exchange an operator, or leave it out together with the operand on its right."""
    for index, word in enumerate(code.words):
        if word.text not in _ARITHMETIC or not _is_binary(code, index):
            continue
        yield Edit(MutantKind.ARITHMETIC, word.start, word.end, _ARITHMETIC[word.text])
        if not word.text.endswith("="):
            end = code.end_of_term(index + 1) if word.text in ("+", "-") else code.end_of_primary(index + 1)
            yield Edit(MutantKind.ARITHMETIC, code.words[index - 1].end, code.words[end - 1].end, "")


def mutate_logic(code: LiveCode) -> Iterator[Edit]:
    for index, word in enumerate(code.words):
        if word.text in _LOGIC and _is_binary(code, index):
            yield Edit(MutantKind.LOGIC, word.start, word.end, _LOGIC[word.text])
        elif word.text == "!":
            yield Edit(MutantKind.LOGIC, word.start, word.end, "")
        elif word.text == ">" == code.at(index + 1) and not {index, index + 1} & code.angles.keys():
            yield Edit(MutantKind.LOGIC, word.start, code.words[index + 1].end, "<<")


def _is_binary(code: LiveCode, index: int) -> bool:
    """Tell whether an operator has an operand on its left; a type's star or ampersand has a blank on one side only."""
    before = index - 1
    operand = (code.is_name(before) and code.at(before) not in _NOT_OPERANDS) or code.is_number(before)
    operand = operand or code.at(before) in (")", "]")
    alike = code.has_blank_before(index) == code.has_blank_before(index + 1)
    return operand and (alike or code.at(index) not in _POINTERS) and code.at(index + 1) not in (",", ")", ">", "")


def mutate_numbers(code: LiveCode) -> Iterator[Edit]:
    for word in code.words:
        if word.kind is TokenKind.NUMBER:
            if match := _INTEGER.fullmatch(word.text):
                yield from _other_integers(word.start, match)
            elif match := _FLOAT.fullmatch(word.text):
                yield from _other_floats(word.start, match)
        elif word.kind is TokenKind.NAME and (match := _STATIC_INTEGER.fullmatch(word.text)):
            value = int(match[1])
            for other in (value // 2, value * 2) if value > 1 else (2,):
                yield Edit(MutantKind.CONSTANT, word.start, word.end, f"cute::Int<{other}>")


def _other_integers(start: int, match: re.Match[str]) -> Iterator[Edit]:
    digits, suffix = match[1].replace("'", ""), match[2]
    if len(digits) > _MOST_DIGITS:
        return
    end = start + len(match[0])
    if digits[:2] in ("0x", "0X"):
        yield Edit(MutantKind.CONSTANT, start, end, f"0x{int(digits, 16) >> 1:x}{suffix}")
        return
    value = int(digits, 8) if digits[0] == "0" and digits.isdigit() and max(digits) < "8" else int(digits)
    others = {0: (1,), 1: (0, 2), 2: (1, 3)}.get(value, (value - 1, value + 1))
    for other in (*others, value // 2) if value > 4 and value % 2 == 0 else others:
        yield Edit(MutantKind.CONSTANT, start, end, f"{other}{suffix}")


def _other_floats(start: int, match: re.Match[str]) -> Iterator[Edit]:
    value, end = float(match[1]), start + len(match[0])
    if value == 0.0:
        yield Edit(MutantKind.CONSTANT, start, end, f"1.0{match[2]}")
    elif value < _SMALL:
        for factor in (0.0, 10.0, 1000.0):
            yield Edit(MutantKind.EPSILON, start, end, f"{value * factor!r}{match[2]}")
    else:
        for other in (value * _NUDGE, -value):
            yield Edit(MutantKind.CONSTANT, start, end, f"{other!r}{match[2]}")


def mutate_epsilons(code: LiveCode) -> Iterator[Edit]:
    """Change a name that means a small number wherever it is used: left out, ten times, a thousand times."""
    for index, word in enumerate(code.words):
        if word.kind is TokenKind.NAME and re.search(r"(?i)^eps|_eps$|epsilon", word.text):
            if code.is_name(index - 1) or code.at(index + 1) == "=":  # its declaration
                continue
            for factor in ("0.0f", "10.0f", "1000.0f"):
                yield Edit(MutantKind.EPSILON, word.start, word.end, f"({word.text} * {factor})")


def mutate_initial_values(code: LiveCode) -> Iterator[Edit]:
    """Start from zero instead of an extreme value, and from an extreme value instead of zero."""
    extreme = re.compile(r"INFINITY|(?:FLT|DBL|INT|LONG|UINT|SHRT)_(?:MAX|MIN)|CUDART_INF_F?")
    for index, word in enumerate(code.words):
        if extreme.fullmatch(word.text):
            signed = code.at(index - 1) == "-"
            start = code.words[index - 1].start if signed else word.start
            yield Edit(MutantKind.INITIAL, start, word.end, "0")
            yield Edit(MutantKind.INITIAL, start, word.end, f"({'-' if signed else ''}1)")
            if signed:
                yield Edit(MutantKind.INITIAL, start, word.end, word.text)


def mutate_indices(code: LiveCode) -> Iterator[Edit]:
    """Take another axis or another coordinate, or the next element."""
    for index, word in enumerate(code.words):
        if word.text in _COORDINATES and code.at(index + 1) == ".":
            axis = code.words[index + 2]
            yield Edit(MutantKind.INDEX, axis.start, axis.end, _AXES.get(axis.text, "x"))
            yield Edit(MutantKind.INDEX, word.start, word.end, _COORDINATES[word.text])
            yield Edit(MutantKind.INDEX, word.start, axis.end, f"({word.text}.{axis.text} + 1)")
        elif word.text == "[" and code.is_name(index - 1) and code.closing(index) > index + 1:
            yield from _other_index(code, index)


def _other_index(code: LiveCode, index: int) -> Iterator[Edit]:
    declared = code.is_name(index - 2) and code.at(index - 2) not in ("return", "else")
    end = code.words[code.closing(index)].start
    changes = (" - 1", " / 2") if declared else (" + 1", " - 1")
    for change in changes:
        inside = code.text[code.words[index].end : end]
        yield Edit(MutantKind.INDEX, code.words[index].end, end, f"({inside}){change}")


def swap_arguments(code: LiveCode) -> Iterator[Edit]:
    """Exchange two neighbouring arguments of a call: coordinates, shapes, strides."""
    for index, word in enumerate(code.words):
        called = code.is_name(index - 1) or code.at(index - 1) in (">", "}")
        declares = code.at(code.closing(index) + 1) in ("{", "const")  # or it is the head of a loop
        if word.text != "(" or not called or declares or code.at(index - 1) == "for":
            continue
        places = code.arguments(index)
        for (start, end), (other, stop) in pairwise(places):
            if stop - start > LONGEST_WORDS:
                continue
            first, second = code.between(start, end), code.between(other, stop)
            if first and second and first != second:
                place = code.words[start].start
                yield Edit(MutantKind.ORDER, place, code.words[stop - 1].end, f"{second}, {first}")


def exchange_functions(code: LiveCode) -> Iterator[Edit]:
    for index, word in enumerate(code.words):
        if word.kind is not TokenKind.NAME:
            continue
        if word.text in _FUNCTIONS and code.at(index + 1) == "(":
            after = _FUNCTIONS[word.text]
            if word.text != "ceil_div":
                yield Edit(MutantKind.FUNCTION, word.start, word.end, after)
            elif len(places := code.arguments(index + 1)) == 2:
                whole = " / ".join(f"({code.between(*place)})" for place in places)
                yield Edit(MutantKind.FUNCTION, word.start, code.words[code.closing(index + 1)].end, f"({whole})")
        elif word.text in _REDUCTIONS and code.at(index + 1) in ("(", "<"):
            for after in _REDUCTIONS[word.text]:
                yield Edit(MutantKind.REDUCTION, word.start, word.end, after)


def narrow_types(code: LiveCode) -> Iterator[Edit]:
    for index, word in enumerate(code.words):
        if word.text in _TYPES and code.at(index - 1) not in ("long", "unsigned"):
            follows = code.at(index + 1) not in ("long", "int", "char", "short", "double")
            for after in _TYPES[word.text] if follows else ():
                yield Edit(MutantKind.DTYPE, word.start, word.end, after)


OPERATOR_EDITS: tuple[Callable[[LiveCode], Iterator[Edit]], ...] = (
    mutate_comparisons, mutate_arithmetic, mutate_logic, mutate_numbers, mutate_epsilons, mutate_initial_values,
    mutate_indices, swap_arguments, exchange_functions, narrow_types,
)  # fmt: skip
