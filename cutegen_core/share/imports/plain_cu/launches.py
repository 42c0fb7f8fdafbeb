"""Read launch statements: `kernel<<<...>>>(...)`, `cudaLaunchKernel`, `cudaLaunchKernelEx`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cutegen_core.share.imports.plain_cu.assigning import Tokens, kernel_at
from cutegen_core.share.imports.plain_cu.host_values import read_value, unread
from cutegen_core.share.imports.plain_cu.source import Function
from cutegen_core.share.imports.plain_cu.tokens import Token, find_close, split_commas
from cutegen_core.share.imports.plain_cu.values import ONE, Frame, Number, TypeOf, Unread, Value

TYPED_LAUNCHES = {"cudaLaunchKernel": False, "cudaLaunchCooperativeKernel": True}


@dataclass(frozen=True)
class RawLaunch:
    """One launch as the host code makes it.

    Attributes:
        template: arguments between `<` and `>`: a number, a type's name, or what could not be read.
        when: conditions under which it is made.
    """

    kernel: Function
    template: tuple[Number | str | TypeOf | Unread, ...]
    grid: Value
    block: Value
    smem: Value
    args: tuple[Value, ...]
    line: int
    when: tuple[Number | Unread, ...] = ()
    cooperative: bool = False
    cluster: tuple[Value, ...] = ()


def read_launches(frame: Frame, tokens: Tokens) -> Iterator[RawLaunch]:
    """Yield the launches of a statement."""
    for index, token in enumerate(tokens):
        if token.text == "<<<":
            yield from _chevrons(frame, tokens, index)
        elif token.text in (*TYPED_LAUNCHES, "cudaLaunchKernelEx") and tokens[index + 1 : index + 2]:
            inside = tokens[index + 2 : find_close(tokens, index + 1)]
            made = _by_config if token.text == "cudaLaunchKernelEx" else _by_call
            yield from made(frame, token, split_commas(inside))


def _chevrons(frame: Frame, tokens: Tokens, index: int) -> Iterator[RawLaunch]:
    begin = index - 1
    if begin >= 0 and tokens[begin].text == ">":
        depth = 0
        while begin >= 0:
            depth += (tokens[begin].text == ">") - (tokens[begin].text == "<")
            begin -= 1
            if depth == 0:
                break
    while begin - 1 >= 0 and tokens[begin - 1].text == "::":
        begin -= 2 if begin >= 2 else 1
    named = kernel_at(frame, tokens[max(begin, 0) : index])
    close = next((i for i in range(index, len(tokens)) if tokens[i].text == ">>>"), -1)
    if named is None or close < 0 or close + 1 >= len(tokens):
        return
    config = split_commas(tokens[index + 1 : close])
    arguments = split_commas(tokens[close + 2 : find_close(tokens, close + 1)])
    grid, block, *rest = (read_value(frame, part) for part in config)
    yield _launch(frame, named, grid, block, rest[0] if rest else Number("0"), arguments, tokens[index].at)


def _by_call(frame: Frame, word: Token, given: list[Tokens]) -> Iterator[RawLaunch]:
    """Read `cudaLaunchKernel(kernel, grid, block, args, smem, stream)`."""
    named = kernel_at(frame, given[0]) if given else None
    if named is None or len(given) < 4:
        return
    arguments = list(frame.arrays.get(given[3][-1].text, ()))
    smem = read_value(frame, given[4]) if len(given) > 4 else Number("0")
    made = _launch(frame, named, read_value(frame, given[1]), read_value(frame, given[2]), smem, arguments, word.at)
    yield replace(made, cooperative=TYPED_LAUNCHES[word.text])


def _by_config(frame: Frame, word: Token, given: list[Tokens]) -> Iterator[RawLaunch]:
    """Read `cudaLaunchKernelEx(&config, kernel, args...)`."""
    named = kernel_at(frame, given[1]) if len(given) > 1 else None
    if named is None:
        return
    config = given[0][-1].text
    listed = frame.arrays.get(config, ())
    fields = ("gridDim", "blockDim", "dynamicSmemBytes")
    values: list[Value] = []
    for position, name in enumerate(fields):
        stated = listed[position] if position < len(listed) else ()
        default = read_value(frame, stated) if stated else Number("0")
        values.append(frame.values.get(f"{config}.{name}", default))
    grid, block, smem = values
    cluster = tuple(frame.values.get(_ending(frame, f"clusterDim.{axis}"), ONE) for axis in "xyz")
    made = _launch(frame, named, grid, block, smem, given[2:], word.at)
    yield replace(made, cluster=() if all(c == ONE for c in cluster) else cluster)


def _ending(frame: Frame, suffix: str) -> str:
    return next((name for name in frame.values if name.endswith(suffix)), "")


def _launch(
    frame: Frame, named: tuple[Function, Tokens], grid: Value, block: Value, smem: Value, arguments: Sequence[Tokens],
    at: int,
) -> RawLaunch:  # fmt: skip
    kernel, types = named
    template = tuple(_template(frame, part) for part in split_commas(types, angles=True))
    args = tuple(read_value(frame, argument) for argument in arguments)
    return RawLaunch(kernel, template, grid, block, smem, args, frame.source.line(at))


def _template(frame: Frame, tokens: Tokens) -> Number | str | TypeOf | Unread:
    text = " ".join(t.text for t in tokens).replace(" :: ", "::")
    if text in frame.types:
        return frame.types[text]
    value = read_value(frame, tokens)
    if isinstance(value, Number):
        return value
    return (
        text
        if re.fullmatch(r"[\w: ]+", text) and not isinstance(frame.values.get(text), Unread)
        else unread(frame, tokens)
    )
