"""Follow host code to its launches: from the entry through the functions that it calls, with the conditions around."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cutegen_core.share.imports.plain_cu.assigning import (
    Tokens,
    assign,
    choose,
    meant_type,
    returned_value,
    statements_of,
)
from cutegen_core.share.imports.plain_cu.directives import expand
from cutegen_core.share.imports.plain_cu.host_values import read_value, unread
from cutegen_core.share.imports.plain_cu.launches import TYPED_LAUNCHES, RawLaunch, read_launches
from cutegen_core.share.imports.plain_cu.source import Function, SourceFile, Variable
from cutegen_core.share.imports.plain_cu.statements import (
    Block,
    Dispatch,
    If,
    Repeated,
    Returned,
    Simple,
    Statement,
    lambda_body,
    read_statements,
)
from cutegen_core.share.imports.plain_cu.tokens import close_angle, find_close, split_commas
from cutegen_core.share.imports.plain_cu.values import Buffer, Frame, Number, TypeOf, Unread, Value

_MOST_CALLS = 12


@dataclass
class Walk:
    """What the host code does from one entry function on.

    Attributes:
        returned: names of the tensors that the entry returns, in order.
        unknown: variables whose value could not be read.
        copied_in, copied_out: device buffers that are copied from and to the host.
    """

    source: SourceFile
    entry: Function | None
    launches: list[RawLaunch] = field(default_factory=list)
    returned: tuple[str, ...] = ()
    copied_in: list[str] = field(default_factory=list)
    copied_out: list[str] = field(default_factory=list)
    zeroed: set[str] = field(default_factory=set)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    unknown: dict[str, Unread] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_entries(source: SourceFile) -> tuple[Function, ...]:
    """Return the host functions that launch kernels, themselves or by others, and that no other such function calls."""
    launching = _launching(source)
    called = {
        token.text
        for host in launching.values()
        for token in expand(source.macros, host.body)
        if token.text in launching and token.text != host.name
    }
    return tuple(host for name, host in launching.items() if name not in called)


def _launching(source: SourceFile) -> Mapping[str, Function]:
    texts = {name: {t.text for t in expand(source.macros, host.body)} for name, host in source.hosts.items()}
    words = {"<<<", "cudaLaunchKernelEx", *TYPED_LAUNCHES}
    found = {name for name, used in texts.items() if used & words}
    while more := {name for name, used in texts.items() if used & found} - found:
        found |= more
    return {name: host for name, host in source.hosts.items() if name in found}


def walk(source: SourceFile, entry: Function, sizes: Collection[str]) -> Walk:
    """Follow the host code from `entry`; its parameters are tensors and numbers by their own names.

    Args:
        sizes: names that mean a number of the problem, even where a program states one.
    """
    if not any(isinstance(_given(parameter), Buffer) for parameter in entry.parameters):
        source = replace(
            source,
            macros={n: m for n, m in source.macros.items() if m.parameters is not None or n not in sizes},
            constants={n: c for n, c in source.constants.items() if n not in sizes},
        )
    made = Walk(source, entry)
    frame = Frame(source, returned_value, unknown=made.unknown)
    if not entry.parameters or entry.name == "main":
        frame.open = frozenset(sizes)
        frame.values |= {name: Number(f"‹#{name}›") for name in sizes}
    for parameter in entry.parameters:
        frame.values[parameter.name] = _given(parameter)
        if isinstance(value := frame.values[parameter.name], Buffer):
            made.buffers[parameter.name] = value
    for parameter in entry.template:
        frame.types[parameter.name] = parameter.name
    _Walker(made, _launching(source)).run(frame, statements_of(source, entry.body), (), 0)
    return made


def _given(parameter: Variable) -> Value:
    is_tensor = parameter.is_pointer or "Tensor" in parameter.type or "vector" in parameter.type
    return Buffer(parameter.name) if is_tensor else Number(f"‹#{parameter.name}›")


class _Walker:
    """Runs statements in order; conditions around a launch go with it."""

    def __init__(self, found: Walk, launching: Mapping[str, Function]) -> None:
        self.found, self.launching = found, launching

    def run(self, frame: Frame, statements: Sequence[Statement], when: tuple[Number | Unread, ...], depth: int) -> None:
        for statement in statements:
            if isinstance(statement, Simple):
                self.simple(frame, statement.tokens, when, depth)
            elif isinstance(statement, Returned):
                self.simple(frame, statement.tokens, when, depth)
                self._note_returned(frame, statement.tokens, depth)
            elif isinstance(statement, Block):
                self.run(frame, statement.body, when, depth)
            elif isinstance(statement, Dispatch):
                inner = frame.inner()
                self._bind_dtype(inner, statement.dtype_of)
                self.run(inner, statement.body, when, depth)
            elif isinstance(statement, If):
                when = self._branches(frame, statement, when, depth)
            else:
                self._repeated(frame, statement, when, depth)

    def _bind_dtype(self, frame: Frame, tokens: Tokens) -> None:
        meant = read_value(frame, tokens)
        frame.types["scalar_t"] = meant if isinstance(meant, TypeOf) else "scalar_t"

    def _branches(
        self, frame: Frame, statement: If, when: tuple[Number | Unread, ...], depth: int
    ) -> tuple[Number | Unread, ...]:
        """Run both branches; return the conditions for what follows."""
        value = read_value(frame, statement.condition)
        chosen = value if isinstance(value, Number) else unread(frame, statement.condition)
        contrary = _not(chosen)
        one, other = frame.inner(), frame.inner()
        before = len(self.found.launches)
        if not (isinstance(chosen, Number) and chosen.value == 0):
            self.run(one, statement.then, (*when, *_open(chosen)), depth)
        launched = len(self.found.launches) > before
        if not (isinstance(chosen, Number) and chosen.value not in (0, None)):
            self.run(other, statement.otherwise, (*when, *_open(contrary)), depth)
        for name in {*one.values, *other.values}:
            left, right = one.values.get(name), other.values.get(name)
            if left != right and name in frame.values:
                frame.values[name] = choose(frame, statement.condition, left, right)
        return (*when, *_open(contrary)) if statement.always_returns and launched else when

    def _repeated(self, frame: Frame, statement: Repeated, when: tuple[Number | Unread, ...], depth: int) -> None:
        inside = frame.inner()
        why = Unread(f"in a {statement.word}", self.found.source.line(statement.at))
        self.run(inside, statement.body, (*when, why), depth)
        for name in frame.values:
            if inside.values.get(name) != frame.values[name]:
                frame.values[name] = why

    def _note_returned(self, frame: Frame, tokens: Tokens, depth: int) -> None:
        if depth:
            return
        inside = tokens
        opening = next((i for i, t in enumerate(tokens) if t.text in ("{", "(")), -1)
        if opening >= 0 and (opening == 0 or tokens[opening - 1].text in ("make_tuple", "tie", "vector")):
            inside = tokens[opening + 1 : find_close(tokens, opening)]
        values = [read_value(frame, part) for part in split_commas(inside)]
        names = tuple(value.name for value in values if isinstance(value, Buffer))
        if names and len(names) == len(values):
            self.found.returned = names

    def simple(self, frame: Frame, tokens: Tokens, when: tuple[Number | Unread, ...], depth: int) -> None:
        texts = {token.text for token in tokens}
        self._memory(frame, tokens)
        if "<<<" in texts or "cudaLaunchKernelEx" in texts or texts & set(TYPED_LAUNCHES):
            body = lambda_body(tokens)
            if body is not None:
                self.run(frame.inner(), read_statements(body), when, depth)
            else:
                self.found.launches += [replace(one, when=when) for one in read_launches(frame, tokens)]
            return
        called = next((i for i, t in enumerate(tokens) if t.text in self.launching), -1)
        if called >= 0 and depth < _MOST_CALLS:
            self._call(frame, tokens, called, when, depth)
            return
        assign(frame, tokens)
        for name, value in frame.values.items():
            if isinstance(value, Buffer) and value.name == name:
                self.found.buffers.setdefault(name, value)

    def _call(self, frame: Frame, tokens: Tokens, index: int, when: tuple[Number | Unread, ...], depth: int) -> None:
        host = self.launching[tokens[index].text]
        types: Tokens = ()
        opening = index + 1
        if opening < len(tokens) and tokens[opening].text == "<":
            close = close_angle(tokens, opening)
            types, opening = tokens[opening + 1 : close], close + 1
        if opening >= len(tokens) or tokens[opening].text != "(":
            return
        arguments = split_commas(tokens[opening + 1 : find_close(tokens, opening)])
        inner = Frame(self.found.source, returned_value, unknown=self.found.unknown)
        for parameter, given in zip(host.parameters, arguments, strict=False):
            inner.values[parameter.name] = read_value(frame, given)
        for parameter, part in zip(host.template, split_commas(types, angles=True), strict=False):
            self._bind(frame, inner, parameter, part)
        self._deduce(inner, host)
        self.run(inner, statements_of(self.found.source, host.body), when, depth + 1)

    def _bind(self, frame: Frame, inner: Frame, parameter: Variable, given: Tokens) -> None:
        text = " ".join(t.text for t in given).replace(" :: ", "::")
        if parameter.type in ("typename", "class"):
            inner.types[parameter.name] = meant_type(frame, text)
        else:
            inner.values[parameter.name] = read_value(frame, given)

    def _deduce(self, inner: Frame, host: Function) -> None:
        """Let a type that is not given be that of the buffer whose parameter has it."""
        for template in host.template:
            if template.type in ("typename", "class") and template.name not in inner.types:
                typed = (p for p in host.parameters if re.search(rf"\b{re.escape(template.name)}\b", p.type))
                value = next((inner.values.get(p.name) for p in typed), None)
                inner.types[template.name] = TypeOf(value.name) if isinstance(value, Buffer) else template.name

    def _memory(self, frame: Frame, tokens: Tokens) -> None:
        """Note what is allocated, copied and cleared."""
        for index, token in enumerate(tokens):
            if index + 1 >= len(tokens) or tokens[index + 1].text != "(":
                continue
            word = token.text
            if not word.startswith(("cudaMalloc", "cudaMemcpy", "cudaMemset")):
                continue
            arguments = split_commas(tokens[index + 2 : find_close(tokens, index + 1)])
            values = [read_value(frame, argument) for argument in arguments]
            first = values[0] if values else None
            if not isinstance(first, Buffer):
                continue
            if word.startswith("cudaMalloc") and len(values) > 1 and isinstance(values[1], Number):
                made = replace(first, made=True, shape=(values[1],), in_bytes=True)
                frame.values[first.name] = self.found.buffers[first.name] = made
            elif word.startswith("cudaMemset"):
                self.found.zeroed.add(first.name)
            elif word.startswith("cudaMemcpy") and len(arguments) > 3:
                self._copied(first, values[1], arguments[3])

    def _copied(self, target: Buffer, origin: Value, direction: Tokens) -> None:
        if direction and direction[-1].text.endswith("HostToDevice"):
            self.found.copied_in.append(target.name)
        elif direction and direction[-1].text.endswith("DeviceToHost") and isinstance(origin, Buffer):
            self.found.copied_out.append(origin.name)


def _not(value: Number | Unread) -> Number | Unread:
    if isinstance(value, Unread):
        return replace(value, text=f"not ({value.text})")
    return Number(f"not {value.at(3)}", 0)


def _open(value: Number | Unread) -> tuple[Number | Unread, ...]:
    """Return a condition as a list, empty if it always holds."""
    return () if isinstance(value, Number) and (value.value or value.text in ("not 0", "1")) else (value,)
