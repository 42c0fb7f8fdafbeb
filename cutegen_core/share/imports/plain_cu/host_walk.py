"""Follow host code to its launches: declarations and assignments first, then each launch with what it is given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cutegen_core.share.imports.plain_cu.host_values import (
    ONE,
    Buffer,
    Frame,
    Number,
    Triple,
    TypeOf,
    Unread,
    Value,
    read_value,
    unread,
)
from cutegen_core.share.imports.plain_cu.source import (
    Function,
    SourceFile,
    Token,
    Variable,
    close_angle,
    expand,
    find_close,
    split_commas,
)
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

Tokens = tuple[Token, ...]
_NAME = re.compile(r"[^\W\d]\w*")
_TYPED_LAUNCHES = {"cudaLaunchKernel": False, "cudaLaunchCooperativeKernel": True}
_MOST_CALLS = 12


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
    words = {"<<<", "cudaLaunchKernelEx", *_TYPED_LAUNCHES}
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
    _Walker(made, _launching(source)).run(frame, _statements(source, entry.body), (), 0)
    return made


def _given(parameter: Variable) -> Value:
    is_tensor = parameter.is_pointer or "Tensor" in parameter.type or "vector" in parameter.type
    return Buffer(parameter.name) if is_tensor else Number(f"‹#{parameter.name}›")


def _statements(source: SourceFile, body: Tokens) -> tuple[Statement, ...]:
    return read_statements(tuple(expand(source.macros, body)))


def returned_value(frame: Frame, body: Tokens) -> Value:
    """Return what a helper computes; Unread if it is more than declarations, conditions and returns."""
    found = _returned(frame, _statements(frame.source, body))
    return found if found is not None else unread(frame, body)


def _returned(frame: Frame, statements: Sequence[Statement]) -> Value | None:
    for index, statement in enumerate(statements):
        if isinstance(statement, Returned):
            return read_value(frame, statement.tokens)
        if isinstance(statement, Simple):
            assign(frame, statement.tokens)
        elif isinstance(statement, Block):
            return _returned(frame, (*statement.body, *statements[index + 1 :]))
        elif isinstance(statement, If):
            rest = statements[index + 1 :]
            yes = _returned(frame.inner(), (*statement.then, *rest))
            no = _returned(frame.inner(), (*statement.otherwise, *rest))
            return choose(frame, statement.condition, yes, no)
        else:
            return None
    return None


def choose(frame: Frame, condition: Tokens, yes: Value | None, no: Value | None) -> Value:
    """Return the value of `condition ? yes : no`."""
    if yes == no and yes is not None:
        return yes
    chosen = read_value(frame, condition)
    if isinstance(chosen, Number) and isinstance(yes, Number) and isinstance(no, Number):
        if chosen.value is not None:
            return yes if chosen.value else no
        return Number(f"{yes.at(2)} * ({chosen.text}) + {no.at(2)} * (1 - ({chosen.text}))", 1)
    return unread(frame, condition)


# -- declarations and assignments --------------------------------------------------------------------------------------


def assign(frame: Frame, tokens: Tokens) -> None:
    """Take a declaration or an assignment into the frame; ignore every other statement."""
    if not tokens:
        return
    texts = [t.text for t in tokens]
    if texts[0] == "using" and "=" in texts:
        frame.types[texts[1]] = _type(frame, " ".join(texts[texts.index("=") + 1 :]))
        return
    if texts[0] == "typedef":
        frame.types[texts[-1]] = _type(frame, " ".join(texts[1:-1]))
        return
    first, *others = split_commas(tokens, angles="<" in texts and "=" not in texts)
    name = _assign_one(frame, first)
    if name and others and texts[0] not in (name,):
        for part in others:
            _assign_one(frame, (Token(texts[0], part[0].at), *part) if part and part[0].text != "*" else part)


def _type(frame: Frame, text: str) -> str | TypeOf:
    text = text.replace("typename ", "").replace(" :: ", "::").strip()
    return frame.types.get(text, text)


def _assign_one(frame: Frame, tokens: Tokens) -> str:
    """Take `T x = value`, `T x(value)`, `x = value`, `x.y = value` or `T* x`; return the name."""
    texts = [t.text for t in tokens]
    at = next((i for i, t in enumerate(texts) if t in ("=", "+=", "-=", "*=", "/=", "%=")), -1)
    if at > 0:
        return _assign_value(frame, tokens[:at], tokens[at + 1 :], plain=texts[at] == "=")
    if len(texts) >= 2 and "*" in texts and _NAME.fullmatch(texts[-1]) and "(" not in texts:
        frame.values[texts[-1]] = Buffer(texts[-1], made=True)
        return texts[-1]
    opening = next((i for i, t in enumerate(texts) if t in ("(", "{")), -1)
    if opening >= 2 and _NAME.fullmatch(texts[opening - 1]) and texts[opening - 2] not in (".", "->", "::"):
        name = texts[opening - 1]
        inside = tokens[opening + 1 : find_close(tokens, opening)]
        is_triple = "dim3" in texts[: opening - 1]
        head = (Token("dim3", tokens[0].at), Token("(", 0), *inside, Token(")", 0)) if is_triple else inside
        frame.values[name] = read_value(frame, head)
        return name
    if len(texts) == 2 and texts[0] == "dim3":
        frame.values[texts[1]] = Triple(ONE, ONE, ONE)
        return texts[1]
    return texts[-1] if len(texts) >= 2 and _NAME.fullmatch(texts[-1]) and "(" not in texts else ""


def _assign_value(frame: Frame, left: Tokens, right: Tokens, *, plain: bool) -> str:
    texts = [t.text for t in left]
    if texts[-1] == "]" and "[" in texts:
        name = texts[texts.index("[") - 1]
        if right and right[0].text == "{":
            frame.arrays[name] = tuple(split_commas(right[1 : find_close(right, 0)]))
            return name
    if "." in texts or "->" in texts or texts[-1] == "]":
        return _assign_member(frame, texts, right)
    name = texts[-1]
    if not plain:
        frame.values[name] = unread(frame, (*left, *right))
        return name
    body = lambda_body((Token("=", 0), *right)) if right and right[0].text == "[" else None
    if body is not None:
        frame.lambdas[name] = (_lambda_parameters(right), body)
    elif right and _kernel_at(frame, right) is not None:
        frame.kernels[name] = right
    elif right and right[0].text == "{" and "dim3" in texts:
        inside = right[1 : find_close(right, 0)]
        frame.values[name] = read_value(frame, (Token("dim3", right[0].at), Token("(", 0), *inside, Token(")", 0)))
    elif right and right[0].text == "{":
        frame.arrays[name] = tuple(split_commas(right[1 : find_close(right, 0)]))
    else:
        frame.values[name] = _named(frame, name, read_value(frame, right))
    return name


def _named(frame: Frame, name: str, value: Value) -> Value:
    """Give a tensor that the host makes the name of its variable, and keep open what the problem says."""
    if name in frame.open and (isinstance(value, Unread) or (isinstance(value, Number) and "‹" not in value.text)):
        return Number(f"‹#{name}›")
    return replace(value, name=name) if isinstance(value, Buffer) and value.made and not value.name else value


def _assign_member(frame: Frame, texts: Sequence[str], right: Tokens) -> str:
    path, value = "".join(texts), read_value(frame, right)
    owner, _, member = path.rpartition(".")
    found = frame.values.get(owner)
    if isinstance(found, Triple) and member in ("x", "y", "z"):
        frame.values[owner] = replace(found, **{member: value})
    frame.values[path] = value
    return path


def _lambda_parameters(tokens: Tokens) -> tuple[str, ...]:
    close = find_close(tokens, 0) + 1
    if close >= len(tokens) or tokens[close].text != "(":
        return ()
    inside = tokens[close + 1 : find_close(tokens, close)]
    return tuple(part[-1].text for part in split_commas(inside, angles=True) if part)


def _kernel_at(frame: Frame, tokens: Sequence[Token]) -> tuple[Function, Tokens] | None:
    """Return the kernel that the tokens name, with its template arguments."""
    tokens = tuple(tokens)
    while tokens and tokens[0].text in ("&", "(", "::"):
        tokens = tokens[find_close(tokens, 0) + 1 :] if tokens[0].text == "(" else tokens[1:]
    if tokens and tokens[0].text == "reinterpret_cast" and "(" in [t.text for t in tokens]:
        opening = next(i for i, t in enumerate(tokens) if t.text == "(")
        return _kernel_at(frame, tokens[opening + 1 : find_close(tokens, opening)])
    index = 0
    while index + 2 < len(tokens) and tokens[index + 1].text == "::":
        index += 2
    if index >= len(tokens):
        return None
    name = tokens[index].text
    if name in frame.kernels and len(tokens) == index + 1:
        return _kernel_at(replace(frame, kernels={}), frame.kernels[name])
    kernel = frame.source.kernels.get(name)
    after = tokens[index + 1 :]
    if kernel is None or (after and after[0].text != "<"):
        return None
    close = close_angle(after, 0) if after else -1
    return kernel, tuple(after[1:close]) if close > 0 else ()


# -- launches ----------------------------------------------------------------------------------------------------------


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
        if "<<<" in texts or "cudaLaunchKernelEx" in texts or texts & set(_TYPED_LAUNCHES):
            body = lambda_body(tokens)
            if body is not None:
                self.run(frame.inner(), read_statements(body), when, depth)
            else:
                self.found.launches += [replace(one, when=when) for one in _launches(frame, tokens)]
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
        self.run(inner, _statements(self.found.source, host.body), when, depth + 1)

    def _bind(self, frame: Frame, inner: Frame, parameter: Variable, given: Tokens) -> None:
        text = " ".join(t.text for t in given).replace(" :: ", "::")
        if parameter.type in ("typename", "class"):
            inner.types[parameter.name] = _type(frame, text)
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


def _launches(frame: Frame, tokens: Tokens) -> Iterator[RawLaunch]:
    for index, token in enumerate(tokens):
        if token.text == "<<<":
            yield from _chevrons(frame, tokens, index)
        elif token.text in (*_TYPED_LAUNCHES, "cudaLaunchKernelEx") and tokens[index + 1 : index + 2]:
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
    named = _kernel_at(frame, tokens[max(begin, 0) : index])
    close = next((i for i in range(index, len(tokens)) if tokens[i].text == ">>>"), -1)
    if named is None or close < 0 or close + 1 >= len(tokens):
        return
    config = split_commas(tokens[index + 1 : close])
    arguments = split_commas(tokens[close + 2 : find_close(tokens, close + 1)])
    grid, block, *rest = (read_value(frame, part) for part in config)
    yield _launch(frame, named, grid, block, rest[0] if rest else Number("0"), arguments, tokens[index].at)


def _by_call(frame: Frame, word: Token, given: list[Tokens]) -> Iterator[RawLaunch]:
    """Read `cudaLaunchKernel(kernel, grid, block, args, smem, stream)`."""
    named = _kernel_at(frame, given[0]) if given else None
    if named is None or len(given) < 4:
        return
    arguments = list(frame.arrays.get(given[3][-1].text, ()))
    smem = read_value(frame, given[4]) if len(given) > 4 else Number("0")
    made = _launch(frame, named, read_value(frame, given[1]), read_value(frame, given[2]), smem, arguments, word.at)
    yield replace(made, cooperative=_TYPED_LAUNCHES[word.text])


def _by_config(frame: Frame, word: Token, given: list[Tokens]) -> Iterator[RawLaunch]:
    """Read `cudaLaunchKernelEx(&config, kernel, args...)`."""
    named = _kernel_at(frame, given[1]) if len(given) > 1 else None
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
