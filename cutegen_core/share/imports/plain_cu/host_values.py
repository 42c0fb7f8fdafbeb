"""Compute what a host expression means in a launch plan, by recursive descent over its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cutegen_core.kernel.expressions import MAX_TEXT
from cutegen_core.records.problem import ITEMSIZE
from cutegen_core.share.imports.plain_cu.tokens import LONGEST_LIST, CodeToken, close_angle, find_close, split_commas
from cutegen_core.share.imports.plain_cu.values import (
    DTYPES,
    ONE,
    HostBuffer,
    HostFrame,
    Number,
    Triple,
    TypeOf,
    Unread,
    Value,
)

_INTEGERS = re.compile(
    r"(?:(?:const|unsigned|signed|int|long|short|char|bool|auto|size_t|std|::|u?int\d+_t|float|double|Index|dim3|uint)\b\s*)+"
)
_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(0[xX][\da-fA-F']{1,19}|\d[\d']{0,24})(?:[uUlL]|[zZ])*")
_CEIL_DIV = frozenset(
    "ceil_div ceildiv CeilDiv cdiv CDIV div_up divup DivUp DIVUP DIV_UP CEIL_DIV ceilDiv divUp THCCeilDiv".split()  # noqa: SIM905
)
_SM_COUNT = ("multiProcessorCount", "cudaDevAttrMultiProcessorCount")


def read_value(frame: HostFrame, tokens: Sequence[CodeToken]) -> Value:
    """Return the meaning of a host expression."""
    tokens = tuple(tokens)
    frame.spend()
    if len(tokens) <= LONGEST_LIST:
        reader = _ValueReader(frame, tokens)
        try:
            value = reader.ternary()
            if reader.index == len(tokens):
                return value
        except (_NotRead, RecursionError):  # hundreds of brackets
            pass
    return unread(frame, tokens)


def unread(frame: HostFrame, tokens: Sequence[CodeToken]) -> Unread:
    return Unread(frame.source.original(tokens), frame.source.line(tokens[0].at) if tokens else 0)


class _NotRead(Exception):  # noqa: N818 - an outcome, not a fault
    """The expression has no meaning in a plan."""


_BINARY = (
    (("||",), 0), (("&&",), 0), (("==", "!="), 0), (("<", ">", "<=", ">="), 0), (("<<", ">>"), 1), (("+", "-"), 1),
    (("*", "/", "%"), 2),
)  # fmt: skip
_WORDS = {"||": "or", "&&": "and", "/": "//"}


class _ValueReader:
    """Reads one expression by recursive descent, each level of `_BINARY` by itself."""

    def __init__(self, frame: HostFrame, tokens: tuple[CodeToken, ...]) -> None:
        self.frame, self.tokens, self.index = frame, tokens, 0

    def peek(self, ahead: int = 0) -> str:
        at = self.index + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def take(self, text: str) -> None:
        if self.peek() != text:
            raise _NotRead
        self.index += 1

    def ternary(self) -> Value:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.index += 1
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        chosen, first, second = _number(condition), _number(yes), _number(no)
        return Number(f"{first.at(2)} * ({chosen.text}) + {second.at(2)} * (1 - ({chosen.text}))", 1)

    def binary(self, level: int) -> Value:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while (found := self._operator(_BINARY[level][0])) is not None:
            left = _combine(found, _number(left), _number(self.binary(level + 1)))
        return left

    def _operator(self, known: Sequence[str]) -> str | None:
        text = self.peek()
        if text in ("<", ">") and self.peek(1) == text and "<<" in known:
            self.index += 2
            return text * 2
        if text in known and not (text in ("<", ">") and self.peek(1) == text):
            self.index += 1
            return text
        return None

    def unary(self) -> Value:
        text = self.peek()
        if text == "-":
            self.index += 1
            return Number(f"-{_number(self.unary()).at(3)}", 2)
        if text == "!":
            self.index += 1
            return Number(f"not {_number(self.unary()).at(3)}", 0)
        if text in ("&", "*", "+"):
            self.index += 1
            return self.unary()
        if text == "(" and (close := self._cast()) > 0:
            self.index = close + 1
            return self.unary()
        return self.postfix(self.primary())

    def _cast(self) -> int:
        """Return the index of the bracket that ends a cast, or 0."""
        close = find_close(self.tokens, self.index)
        inside = [t.text for t in self.tokens[self.index + 1 : close]]
        after = self.tokens[close + 1].text if close + 1 < len(self.tokens) else ""
        is_type = bool(inside) and (
            inside[-1] == "*" or bool(_INTEGERS.fullmatch(" ".join(inside))) or inside[0] in self.frame.types
        )
        return close if is_type and (after == "(" or after in "&*-" or bool(re.match(r"\w", after))) and after else 0

    def primary(self) -> Value:
        text = self.peek()
        if text in ("(", "{"):
            close = find_close(self.tokens, self.index)
            value = self._inside(self.tokens[self.index + 1 : close])
            self.index = close + 1
            return Number(value.text, value.level) if isinstance(value, Number) else value
        if number := _NUMBER.fullmatch(text):
            self.index += 1
            return Number(str(int(number[1].replace("'", ""), 0)))
        if re.fullmatch(r"\d[\d.']*(?:[eE]\d+)?[fF]?|\.\d+[fF]?", text):
            self.index += 1
            return Number(text.rstrip("fF").replace("'", ""))
        if text in ("true", "false"):
            self.index += 1
            return Number(str(int(text == "true")))
        if _NAME.fullmatch(text):
            return self.named()
        raise _NotRead

    def named(self) -> Value:
        """Read a name, qualified or not, with template arguments and a call."""
        name = self.tokens[self.index].text
        self.index += 1
        while self.peek() == "::" and self.index + 1 < len(self.tokens):
            name += f"::{self.peek(1)}"
            self.index += 2
        types: tuple[CodeToken, ...] = ()
        if self.peek() == "<" and (close := close_angle(self.tokens, self.index)) > 0 and self._calls_after(close):
            types = self.tokens[self.index + 1 : close]
            self.index = close + 1
        if self.peek() in ("(", "{") and name not in self.frame.values:
            close = find_close(self.tokens, self.index)
            inside = self.tokens[self.index + 1 : close]
            self.index = close + 1
            return self.called(name, types, inside)
        return self.value_of(name)

    def _calls_after(self, close: int) -> bool:
        return close + 1 < len(self.tokens) and self.tokens[close + 1].text in ("(", "{")

    def value_of(self, name: str) -> Value:
        frame = self.frame
        if name in frame.values:
            value = frame.values[name]
            if isinstance(value, Unread):
                frame.unknown[name] = value
                return Number(f"‹!{name}›")
            return value
        name = name.rpartition("::")[2]
        constant = frame.source.constants.get(name)
        if constant is not None and frame.depth < 8:
            return _known(read_value(replace(frame, depth=frame.depth + 1), constant))
        if name in ("warpSize", "WARP_SIZE"):
            return Number("32")
        if name in _SM_COUNT:
            return Number("sm_count")
        raise _NotRead

    def called(self, name: str, types: tuple[CodeToken, ...], inside: tuple[CodeToken, ...]) -> Value:
        last = name.rpartition("::")[2]
        arguments = split_commas(inside, angles=False)
        if last in ("static_cast", "reinterpret_cast", "const_cast", "raw_pointer_cast", "move", "forward", "int",
                    "unsigned", "size_t", "int64_t", "uint32_t", "long", "int32_t", "uint64_t"):  # fmt: skip
            return self._inside(inside)
        if last == "sizeof":
            return size_of(self.frame, "".join(t.text for t in inside))
        if last == "dim3":
            values = [_known(read_value(self.frame, a)) for a in arguments]
            return Triple(*values, *[ONE] * (3 - len(values)))
        if last in ("min", "max"):
            texts = [_number(read_value(self.frame, a)).text for a in arguments]
            return Number(f"{last}({', '.join(texts)})") if len(texts) > 1 else self._inside(inside)
        own = self._own(name, arguments)
        if own is not None:
            return own
        if last in _CEIL_DIV and len(arguments) == 2:
            one, other = (_number(read_value(self.frame, a)) for a in arguments)
            return Number(f"ceil_div({one.text}, {other.text})")
        if name.startswith(("torch::", "at::")):
            return self._made(last, arguments)
        raise _NotRead

    def _own(self, name: str, arguments: list[tuple[CodeToken, ...]]) -> Value | None:
        """Return what one of the file's own helpers computes; None for any other function."""
        frame = self.frame
        if frame.depth > 8:
            raise _NotRead
        last = name.rpartition("::")[2]
        if last in frame.lambdas:
            names, body = frame.lambdas[last]
        elif last in frame.source.hosts:
            host = frame.source.hosts[last]
            names, body = tuple(p.name for p in host.parameters), host.body
        else:
            return None
        values = dict(frame.values) if last in frame.lambdas else {}
        inner = HostFrame(
            frame.source, frame.run_helper, values, dict(frame.types), unknown=frame.unknown, depth=frame.depth + 1
        )
        inner.values |= {n: read_value(frame, a) for n, a in zip(names, arguments, strict=False)}
        if last in frame.source.hosts:
            for parameter in frame.source.hosts[last].parameters[len(arguments) :]:
                if re.fullmatch(r"\d+", parameter.default):
                    inner.values[parameter.name] = Number(parameter.default)
        return _known(frame.run_helper(inner, body))

    def _made(self, function: str, arguments: list[tuple[CodeToken, ...]]) -> Value:
        """Return a tensor that torch makes."""
        zero = function.startswith("zeros")
        if function in ("empty_like", "zeros_like") and arguments:
            like = read_value(self.frame, arguments[0])
            if isinstance(like, HostBuffer):
                return HostBuffer("", like.shape, like.like or like.name, made=True, zero=zero)
        if function in ("empty", "zeros") and arguments:
            return HostBuffer("", self._extents(arguments[0]), self._sizes_of(arguments[0]), made=True, zero=zero)
        raise _NotRead

    def _extents(self, tokens: tuple[CodeToken, ...]) -> tuple[Number, ...] | None:
        if not tokens or tokens[0].text != "{":
            return None
        values = [read_value(self.frame, part) for part in split_commas(tokens[1:-1])]
        return tuple(v for v in values if isinstance(v, Number)) if all(isinstance(v, Number) for v in values) else None

    def _sizes_of(self, tokens: tuple[CodeToken, ...]) -> str:
        """Return the buffer whose sizes are asked for."""
        if len(tokens) >= 3 and tokens[1].text == "." and tokens[2].text == "sizes":
            found = self.frame.values.get(tokens[0].text)
            return found.name if isinstance(found, HostBuffer) else ""
        return ""

    def postfix(self, value: Value) -> Value:
        while self.peek() in (".", "->", "["):
            if self.peek() == "[":
                raise _NotRead
            self.index += 1
            member = self.peek()
            self.index += 1
            if self.peek() == "<" and (close := close_angle(self.tokens, self.index)) > 0:
                self.index = close + 1
            inside: tuple[CodeToken, ...] | None = None
            if self.peek() == "(":
                close = find_close(self.tokens, self.index)
                inside = self.tokens[self.index + 1 : close]
                self.index = close + 1
            value = self._member(value, member, inside)
        return value

    def _member(self, value: Value, member: str, inside: tuple[CodeToken, ...] | None) -> Value:
        if member in _SM_COUNT:
            return Number("sm_count")
        if isinstance(value, Triple) and member in ("x", "y", "z"):
            return _known(getattr(value, member))
        if not isinstance(value, HostBuffer):
            raise _NotRead
        if member in (
            "data_ptr",
            "const_data_ptr",
            "mutable_data_ptr",
            "data",
            "get",
            "contiguous",
            "to",
            "packed_accessor32",
        ):
            return value
        if member in ("scalar_type", "dtype", "type"):
            return TypeOf(value.like or value.name)
        if member == "numel":
            return self._numel(value)
        if member in ("element_size", "itemsize"):
            return Number(f"‹{value.name}›.itemsize")
        if member in ("size", "stride") and inside:
            return self._extent(value, member, _number(read_value(self.frame, inside)))
        if member == "sizes" and self.peek() == "[":
            close = find_close(self.tokens, self.index)
            axis = _number(read_value(self.frame, self.tokens[self.index + 1 : close]))
            self.index = close + 1
            return self._extent(value, "size", axis)
        raise _NotRead

    def _numel(self, value: HostBuffer) -> Number:
        if value.shape and not value.like:
            return Number(" * ".join(extent.at(2) for extent in value.shape), 2 if len(value.shape) > 1 else 3)
        return Number(f"‹{value.like or value.name}›.numel")

    def _extent(self, value: HostBuffer, member: str, axis: Number) -> Number:
        if axis.value is None:
            raise _NotRead
        if value.shape and not value.like and member == "size" and -len(value.shape) <= axis.value < len(value.shape):
            return value.shape[axis.value]
        return Number(f"‹{value.like or value.name}›.{'shape' if member == 'size' else 'stride'}[{axis.text}]")

    def _inside(self, tokens: tuple[CodeToken, ...]) -> Value:
        return _known(read_value(self.frame, tokens))


def size_of(frame: HostFrame, type_text: str) -> Number:
    """Return `sizeof(T)`."""
    meant = frame.types.get(type_text, type_text)
    if isinstance(meant, TypeOf):
        return Number(f"‹{meant.buffer}›.itemsize")
    dtype = DTYPES.get(meant)
    if dtype is None:
        raise _NotRead
    vector = re.search(r"(?<=[a-z_6])([24])$", meant)
    return Number(str(ITEMSIZE[dtype] * (int(vector[1]) if vector and dtype.startswith("float") else 1)))


def _known(value: Value) -> Value:
    if isinstance(value, Unread):
        raise _NotRead
    return value


def _number(value: Value) -> Number:
    if not isinstance(value, Number) or len(value.text) > MAX_TEXT:
        raise _NotRead
    return value


def _combine(operator: str, left: Number, right: Number) -> Number:
    if len(left.text) + len(right.text) > MAX_TEXT:
        raise _NotRead
    a, b = left.value, right.value
    if operator in ("<<", ">>"):
        if b is None:
            raise _NotRead
        return _combine("*" if operator == "<<" else "/", left, Number(str(2**b)))
    if operator in ("+", "-", "*", "/", "%") and a is not None and b is not None and b != 0:
        folded = {"+": a + b, "-": a - b, "*": a * b, "/": int(a / b), "%": a % b}[operator]
        return Number(str(folded), 3 if folded >= 0 else 2)
    if "." in f"{left.text}{right.text}" and operator == "/" and (_is_real(left) or _is_real(right)):
        raise _NotRead
    level = next(level for operators, level in _BINARY if operator in operators)
    word = _WORDS.get(operator, operator)
    return Number(f"{left.at(max(1, level))} {word} {right.at(level + 1)}", level)


def _is_real(number: Number) -> bool:
    return bool(re.fullmatch(r"\d*\.\d*(?:[eE]\d+)?", number.text))
