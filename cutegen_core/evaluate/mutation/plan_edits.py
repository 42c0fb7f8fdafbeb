"""Mutate the launch plan: sizes, blocks, shared memory, arguments, scratch, tensor maps, the order of launches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from cutegen_core.evaluate.mutation.edit import Edit, MutantKind
from cutegen_core.kernel.kernel_file import KernelFile

_HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*(\w+)[ \t]*\]\]?", re.MULTILINE)
_FIELD = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_ENTRY = re.compile(r'"[^"\n]*"|\b\d+\b')
_WRAPPED = {
    "grid": ("max(1, ({}) - 1)", "({}) + 1", "max(1, ({}) // 2)"),
    "block": ("max(1, ({}) // 2)", "({}) * 2", "max(1, ({}) - 1)"),
    "smem": ("({}) // 2", "({}) - 4"),
    "shape": ("max(1, ({}) // 2)", "max(1, ({}) - 1)"),
    "box": ("max(1, ({}) // 2)",),
    "dims": ("max(1, ({}) - 1)",),
}
_WORDS = {"zero": "none", "128B": "64B", "64B": "32B", "32B": "none", "nan": "zero", "true": "false", "false": "true"}
_WORD_FIELDS = frozenset({"init", "swizzle", "oob_fill", "cooperative"})
_IN_EXPRESSIONS = (
    (re.compile(r"ceil_div\(([^(),]+), *([^(),]+)\)"), r"(\1) // (\2)"),
    (re.compile(r"round_up\(([^(),]+), *([^(),]+)\)"), r"(\1)"),
    (re.compile(r"shape\[0\]"), "shape[1]"),
    (re.compile(r"shape\[1\]"), "shape[0]"),
    (re.compile(r"shape\[2\]"), "shape[1]"),
    (re.compile(r" \* "), " + "),
    (re.compile(r" // "), " * "),
    (re.compile(r" < "), " <= "),
    (re.compile(r" <= "), " < "),
    (re.compile(r" > "), " >= "),
    (re.compile(r" == "), " != "),
)


def find_plan_edits(kernel: KernelFile) -> Iterator[Edit]:
    """Yield the edits of a kernel file's launch plan."""
    plan = kernel.text[: len(kernel.text) - len(kernel.body)]
    headers = list(_HEADER.finditer(plan))
    for header, after in pairwise([*headers, None]):
        assert header is not None
        end = after.start() if after else len(plan) - len("*/")
        if header[1] in ("let", "launch", "scratch", "tensormap"):
            for field in _FIELD.finditer(plan, header.end(), end):
                yield from _mutate_field(header[1], field)
    yield from _mutate_launches(plan, headers)


def _mutate_field(section: str, field: re.Match[str]) -> Iterator[Edit]:
    name, start, value = field[1], field.start(2), field[2]
    if section == "launch" and name == "args":
        yield from _swap_neighbours(start, value)
    elif name in _WORD_FIELDS:
        for match in re.finditer(r"\w+", value):
            if match[0] in _WORDS:
                yield Edit(MutantKind.LAUNCH, start + match.start(), start + match.end(), _WORDS[match[0]])
    elif section == "let" or name in _WRAPPED or name == "when":
        for entry in _ENTRY.finditer(value):
            yield from _mutate_entry(name if section != "let" else "let", start + entry.start(), entry[0])


def _mutate_entry(name: str, start: int, entry: str) -> Iterator[Edit]:
    text, end = entry.strip('"'), start + len(entry)
    for form in _WRAPPED.get(name, ()):
        yield Edit(MutantKind.LAUNCH, start, end, f'"{form.format(text)}"')
    for pattern, after in _IN_EXPRESSIONS:
        for match in pattern.finditer(text):
            changed = text[: match.start()] + match.expand(after) + text[match.end() :]
            yield Edit(MutantKind.LAUNCH, start, end, f'"{changed}"')


def _swap_neighbours(start: int, value: str) -> Iterator[Edit]:
    for left, right in pairwise(_ENTRY.finditer(value)):
        between = value[left.end() : right.start()]
        yield Edit(MutantKind.LAUNCH, start + left.start(), start + right.end(), f"{right[0]}{between}{left[0]}")


def _mutate_launches(plan: str, headers: list[re.Match[str]]) -> Iterator[Edit]:
    """Leave a launch out, or exchange it with the next; a plan of one launch stays."""
    ends = [*(header.start() for header in headers[1:]), len(plan) - len("*/")]
    launches = [(h.start(), end) for h, end in zip(headers, ends, strict=True) if h[1] == "launch"]
    if len(launches) < 2:
        return
    for start, end in launches:
        yield Edit(MutantKind.LAUNCH, start, end, "")
    for (start, end), (other, stop) in pairwise(launches):
        if end == other:
            yield Edit(MutantKind.LAUNCH, start, stop, f"{plan[other:stop].rstrip()}\n\n{plan[start:end].rstrip()}\n\n")
