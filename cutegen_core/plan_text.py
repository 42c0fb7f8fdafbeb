"""The TOML of a kernel file's opening comment, read into records that remember their lines.

1. `tomllib` reads the text; `_KeyLines` finds where each key stands, so that every complaint names a line.
2. Each section has one reader; unknown keys are answered with the nearest known one.
Nothing is evaluated here: expressions are only checked for form. `plan_resolve` gives them their values.
"""

from __future__ import annotations

import contextlib
import keyword
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutegen_core.errors import KernelFileError
from cutegen_core.expressions import FUNCTIONS, Expression, ExpressionError, Number, nearest, parse_expression
from cutegen_core.launch import INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES
from cutegen_core.problem import ITEMSIZE

DEVICE_NAMES = ("sm_count", "smem_max", "warp_size", "arch")

_SECTIONS = ("idea", "let", "params", "scratch", "launch", "numerics", "tensormap")
_LAUNCH_KEYS = ("kernel", "grid", "block", "args", "smem", "cluster", "cooperative", "when")
_LISTS = ("grid", "block", "args", "cluster")
_TENSOR_MAP_CHOICES = {
    "swizzle": SWIZZLES, "interleave": INTERLEAVES, "l2_promotion": L2_PROMOTIONS, "oob_fill": OOB_FILLS,
}  # fmt: skip
_TENSOR_MAP_LISTS = ("box", "dims", "strides")
_TENSOR_MAP_KEYS = ("name", "tensor", *_TENSOR_MAP_LISTS, "offset", *_TENSOR_MAP_CHOICES)
_ACCUMULATE = ("float64", "float32", "float16", "bfloat16", "int32", "int64")
_RELAXATIONS = ("fast_math", "tf32", "bf16_accumulate", "fp16_accumulate", "atomics")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KERNEL_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)* *(<[\w ,:<>()*+/%&|=!~.-]*>)?")
_CPP_WORDS = frozenset(
    """
    alignas alignof asm auto bool break case catch char class const constexpr continue decltype default delete do double
    else enum explicit extern false float for friend goto half if inline int long main mutable namespace new nullptr
    operator private protected public register return short signed sizeof static struct switch template this throw true
    try typedef typename union unsigned using virtual void volatile while
    """.split()  # noqa: SIM905 - a list of 66 quoted words is harder to read
)
_MAX_VALUES = 64
_MAX_TABLES = {"launch": 64, "scratch": 32, "tensormap": 32}
_MAX_NAME = 64
_MAX_KERNEL_NAME = 500


@dataclass(frozen=True)
class Located:
    """An expression and the line of the kernel file it stands on."""

    expression: Expression
    line: int


@dataclass(frozen=True)
class Let:
    """`name = expression` of `[let]`."""

    name: str
    value: Located


@dataclass(frozen=True)
class Parameter:
    """A compile-time constant of the C++.

    Attributes:
        values: what a tuner may choose from; just the default when it is not tunable.
    """

    name: str
    default: Number
    values: tuple[Number, ...]
    line: int = 0

    @property
    def tunable(self) -> bool:
        return len(self.values) > 1


@dataclass(frozen=True)
class ScratchSpec:
    """A `[[scratch]]` entry; `zero` is `init = "zero"`."""

    name: str
    dtype: str
    shape: tuple[Located, ...]
    zero: bool
    line: int


@dataclass(frozen=True)
class TensorMapSpec:
    """A `[[tensormap]]` entry before its expressions have values; every list has the fastest dimension first.

    Attributes:
        box: elements one copy moves along each dimension.
        dims: elements of the view; None: the tensor's own shape, reversed.
        strides: distances along dimensions 1, 2, ... in elements; None: dense.
        offset: first element of the view.
        lines: of its keys; "" is the entry itself.
    """

    name: str
    tensor: str
    box: tuple[Located, ...]
    dims: tuple[Located, ...] | None
    strides: tuple[Located, ...] | None
    offset: Located | None
    swizzle: str
    interleave: str
    l2_promotion: str
    oob_fill: str
    lines: Mapping[str, int]

    @property
    def line(self) -> int:
        return self.lines[""]

    def line_of(self, key: str) -> int:
        """The line of a key, of the entry when it does not have it."""
        return self.lines.get(key, self.line)


@dataclass(frozen=True)
class LaunchSpec:
    """A `[[launch]]` entry before its expressions have values.

    Attributes:
        kernel: C++ name expression, such as "relu<BLOCK, ITEMS>".
        args: tensor names and number expressions, as written.
        when: None when it is always launched.
    """

    kernel: str
    grid: tuple[Located, ...]
    block: tuple[Located, ...]
    args: tuple[Located, ...]
    line: int
    smem: Located | None = None
    cluster: tuple[Located, ...] = ()
    cooperative: bool = False
    when: Located | None = None

    @property
    def function(self) -> str:
        """The kernel's name without template arguments and namespaces."""
        return self.kernel.split("<")[0].strip().split("::")[-1]


@dataclass(frozen=True)
class Numerics:
    """What the kernel declares about its arithmetic; the problem decides what is allowed."""

    accumulate: str = ""
    deterministic: bool = True
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanText:
    """The whole comment. `lines` maps (section, index, key) to a line of the kernel file."""

    idea: str
    lets: tuple[Let, ...]
    params: tuple[Parameter, ...]
    where: tuple[Located, ...]
    scratch: tuple[ScratchSpec, ...]
    launches: tuple[LaunchSpec, ...]
    tensor_maps: tuple[TensorMapSpec, ...]
    numerics: Numerics
    lines: Mapping[tuple[str, int, str], int] = field(default_factory=dict, repr=False)


def read_plan(toml: str, first_line: int) -> PlanText:
    """Reads the comment's TOML, whose first line is line `first_line` of the file. Raises KernelFileError."""
    where = _KeyLines(toml, first_line)
    data = _load(toml, where)
    _refuse_unknown_sections(data, where)
    idea = data.get("idea", "")
    if not isinstance(idea, str):
        raise KernelFileError("idea must be a text in quotes", where.at("", 0, "idea"))
    params, pruning = _read_params(_table(data, "params", where), where)
    plan = PlanText(
        idea=idea,
        lets=_read_lets(_table(data, "let", where), where),
        params=params,
        where=pruning,
        scratch=tuple(_read_scratch(t, i, where) for i, t in enumerate(_tables(data, "scratch", where))),
        launches=tuple(_read_launch(t, i, where) for i, t in enumerate(_tables(data, "launch", where))),
        tensor_maps=tuple(_read_tensor_map(t, i, where) for i, t in enumerate(_tables(data, "tensormap", where))),
        numerics=_read_numerics(_table(data, "numerics", where), where),
        lines=where.lines,
    )
    if not plan.launches:
        raise KernelFileError(
            "the plan launches nothing: add a [[launch]] with kernel, grid, block and args", first_line
        )
    _refuse_duplicates(plan)
    _refuse_unused_tensor_maps(plan)
    return plan


class _KeyLines:
    """Lines of headers and keys, found by looking at line starts; tomllib keeps none."""

    _HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(#.*)?$")
    _KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")

    def __init__(self, toml: str, first_line: int) -> None:
        self.first_line = first_line
        self.lines: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        section, index = "", 0
        for number, text in enumerate(toml.split("\n"), first_line):
            if header := self._HEADER.match(text.rstrip("\r")):
                section = header[2]
                counts[section] = counts.get(section, -1) + 1
                index = counts[section]
                self.lines.setdefault((section, index, ""), number)
            elif key := self._KEY.match(text):
                self.lines.setdefault((section, index, key[1]), number)

    def at(self, section: str, index: int = 0, key: str = "") -> int:
        """The line of a key; of its section, or of a top-level key of that name, when it has none of its own."""
        for place in ((section, index, key), (section, index, ""), ("", 0, section), ("", 0, key)):
            if place in self.lines:
                return self.lines[place]
        return self.first_line


def _load(toml: str, where: _KeyLines) -> dict[str, Any]:
    try:
        return tomllib.loads(toml.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        line = where.first_line + (int(found[1]) - 1 if found else _readable_lines(toml))
        reason = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
        raise KernelFileError(f"the plan is not valid TOML: {reason}", line) from error
    except ValueError as error:  # an impossible date, an integer of thousands of digits
        raise KernelFileError(f"the plan is not valid TOML: {error}", where.first_line) from error


def _readable_lines(toml: str) -> int:
    """How many leading lines are valid TOML: an unclosed string or list begins on the line after them."""
    lines = toml.split("\n")[:500]
    for count in range(len(lines) - 1, 0, -1):
        with contextlib.suppress(ValueError, RecursionError):
            tomllib.loads("\n".join(lines[:count]))
            return count
    return 0


def _refuse_unknown_sections(data: Mapping[str, Any], where: _KeyLines) -> None:
    for key in data:
        if key not in _SECTIONS:
            hint = "; it belongs into [params]" if key == "where" else nearest(key, _SECTIONS)
            raise KernelFileError(f"unknown section '{key}'{hint}", where.at(key))


def _table(data: Mapping[str, Any], name: str, where: _KeyLines) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise KernelFileError(f"[{name}] must be one table, written [{name}]", where.at(name))
    return table


def _tables(data: Mapping[str, Any], name: str, where: _KeyLines) -> list[dict[str, Any]]:
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise KernelFileError(f"[{name}] must be written [[{name}]]: there can be several", where.at(name))
    if len(tables) > _MAX_TABLES[name]:
        text = f"the plan has {len(tables)} [[{name}]] sections; at most {_MAX_TABLES[name]} are possible"
        raise KernelFileError(text, where.at(name, _MAX_TABLES[name]))
    return tables


def _expression(value: object, line: int, what: str) -> Located:
    if isinstance(value, int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise KernelFileError(f"{what} must be a number or an expression in quotes, not {type(value).__name__}", line)
    try:
        return Located(parse_expression(value), line)
    except ExpressionError as error:
        raise KernelFileError(f"{what}: {error}", line) from error


def _expressions(value: object, line: int, what: str, most: int) -> tuple[Located, ...]:
    if not isinstance(value, list):
        raise KernelFileError(f'{what} must be a list, such as ["ceil_div(n, 256)"]', line)
    if len(value) > most:
        raise KernelFileError(f"{what} has {len(value)} entries (at most {most})", line)
    return tuple(_expression(v, line, what) for v in value)


def check_name(name: str, kind: str, line: int) -> None:
    """Raises KernelFileError unless `name` can be both a name of expressions and a C++ identifier."""
    if len(name) > _MAX_NAME:
        raise KernelFileError(
            f"the name of a {kind} has {len(name)} characters; at most {_MAX_NAME} are possible", line
        )
    if not _IDENTIFIER.fullmatch(name) or name in _CPP_WORDS or keyword.iskeyword(name) or name.startswith("__"):
        raise KernelFileError(f"'{name}' cannot be the name of a {kind}: use letters, digits and _, no keyword", line)
    if name in FUNCTIONS or name in DEVICE_NAMES:
        raise KernelFileError(f"'{name}' already has a meaning in expressions; give the {kind} another name", line)


def _read_lets(table: Mapping[str, Any], where: _KeyLines) -> tuple[Let, ...]:
    lets = []
    for name, value in table.items():
        line = where.at("let", 0, name)
        check_name(name, "let", line)
        lets.append(Let(name, _expression(value, line, f"let {name}")))
    return tuple(lets)


def _read_params(table: Mapping[str, Any], where: _KeyLines) -> tuple[tuple[Parameter, ...], tuple[Located, ...]]:
    params, pruning = [], []
    for name, value in table.items():
        line = where.at("params", 0, name)
        if name == "where":
            pruning = [_expression(v, line, "where") for v in (value if isinstance(value, list) else [value])]
            continue
        check_name(name, "parameter", line)
        params.append(_read_parameter(name, value, line))
    known = {p.name for p in params} | set(DEVICE_NAMES)
    for condition in pruning:
        for name in sorted(condition.expression.names - known):
            text = f"where may use parameters and device numbers only, not '{name}'{nearest(name, known)}"
            raise KernelFileError(text, condition.line)
    return tuple(params), tuple(pruning)


def _read_parameter(name: str, value: object, line: int) -> Parameter:
    if not isinstance(value, dict):
        number = _number(name, value, line)
        return Parameter(name, number, (number,), line)
    for key in value:
        if key not in ("default", "values"):
            raise KernelFileError(f"unknown key '{key}' of parameter {name}{nearest(key, ('default', 'values'))}", line)
    if "default" not in value:
        raise KernelFileError(f"parameter {name} has no default", line)
    default = _number(name, value["default"], line)
    listed = value.get("values", [default])
    if not isinstance(listed, list) or not 0 < len(listed) <= _MAX_VALUES:
        raise KernelFileError(f"values of parameter {name} must be a list of 1 to {_MAX_VALUES} numbers", line)
    values = tuple(_number(name, v, line) for v in listed)
    if default not in values:
        raise KernelFileError(f"the default {default} of parameter {name} is not among its values {listed}", line)
    return Parameter(name, default, values, line)


def _number(name: str, value: object, line: int) -> Number:
    finite = isinstance(value, int | float) and (abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value))
    if not isinstance(value, int | float) or not finite:
        form = "a finite 64-bit number, or { default = 256, values = [128, 256] }"
        raise KernelFileError(f"parameter {name} must be {form}", line)
    return value


def _read_scratch(table: Mapping[str, Any], index: int, where: _KeyLines) -> ScratchSpec:
    what, keys = f"[[scratch]] number {index + 1}", ("name", "dtype", "shape", "init")
    at = {key: where.at("scratch", index, key) for key in ("", *table)}
    _check_keys(table, keys, keys[:3], what, at)
    name, dtype, init = table["name"], table["dtype"], table.get("init", "none")
    if not isinstance(name, str):
        raise KernelFileError(f"{what}: the name must be a text in quotes", at["name"])
    check_name(name, "scratch buffer", at["name"])
    if dtype not in ITEMSIZE:
        raise KernelFileError(f"scratch {name}: unknown dtype {dtype!r}{nearest(str(dtype), ITEMSIZE)}", at["dtype"])
    if init not in ("none", "zero"):
        raise KernelFileError(f'scratch {name}: init must be "none" or "zero", not {init!r}', at["init"])
    shape = _expressions(table["shape"], at["shape"], f"shape of scratch {name}", 8)
    return ScratchSpec(name, dtype, shape, init == "zero", at[""])


def _read_tensor_map(table: Mapping[str, Any], index: int, where: _KeyLines) -> TensorMapSpec:
    what, at = f"[[tensormap]] number {index + 1}", {k: where.at("tensormap", index, k) for k in ("", *table)}
    _check_keys(table, _TENSOR_MAP_KEYS, ("name", "tensor", "box"), what, at)
    name, tensor = table["name"], table["tensor"]
    if not isinstance(name, str) or not isinstance(tensor, str):
        wrong = "tensor" if isinstance(name, str) else "name"
        raise KernelFileError(f"{what}: {wrong} must be a name in quotes", at[wrong])
    check_name(name, "tensor map", at["name"])
    lists = {k: _expressions(table[k], at[k], f"{k} of {name}", 5) for k in _TENSOR_MAP_LISTS if k in table}
    for key in ("box", "dims"):
        if not lists.get(key, True):
            raise KernelFileError(f"{key} of {name} needs 1 to 5 entries, the fastest dimension first", at[key])
    chosen = {key: table.get(key, choices[0]) for key, choices in _TENSOR_MAP_CHOICES.items()}
    for key, choices in _TENSOR_MAP_CHOICES.items():
        if chosen[key] not in choices:
            raise KernelFileError(f"{key} of {name} must be one of {', '.join(choices)}, not {chosen[key]!r}", at[key])
    return TensorMapSpec(
        name=name, tensor=tensor.strip(), box=lists["box"], dims=lists.get("dims"), strides=lists.get("strides"),
        offset=_expression(table["offset"], at["offset"], f"offset of {name}") if "offset" in table else None,
        lines=at, **chosen,
    )  # fmt: skip


def _read_launch(table: Mapping[str, Any], index: int, where: _KeyLines) -> LaunchSpec:
    at = {key: where.at("launch", index, key) for key in ("", *table)}
    _check_keys(table, _LAUNCH_KEYS, ("kernel", "grid", "block", "args"), f"[[launch]] number {index + 1}", at)
    kernel, cooperative = table["kernel"], table.get("cooperative", False)
    if not isinstance(kernel, str) or not _KERNEL_NAME.fullmatch(kernel.strip(" ")) or "<<" in kernel:
        text = f'kernel must name a __global__ function, such as "relu<BLOCK>", not {str(kernel)[:60]!r}'
        raise KernelFileError(text, at["kernel"])
    if len(kernel) > _MAX_KERNEL_NAME:
        text = f"the kernel's name has {len(kernel)} characters; at most {_MAX_KERNEL_NAME} are possible"
        raise KernelFileError(text, at["kernel"])
    if not isinstance(cooperative, bool):
        raise KernelFileError("cooperative must be true or false", at["cooperative"])
    lists = {k: _expressions(table[k], at[k], k, 64 if k == "args" else 3) for k in _LISTS if k in table}
    for key in ("grid", "block", "cluster"):
        if not lists.get(key, True):
            raise KernelFileError(f'{key} needs 1 to 3 entries, such as ["256"]', at[key])
    return LaunchSpec(
        kernel=kernel.strip(), grid=lists["grid"], block=lists["block"], args=lists["args"], line=at[""],
        smem=_expression(table["smem"], at["smem"], "smem") if "smem" in table else None,
        cluster=lists.get("cluster", ()), cooperative=cooperative,
        when=_expression(table["when"], at["when"], "when") if "when" in table else None,
    )  # fmt: skip


def _check_keys(
    table: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], what: str, at: Mapping[str, int]
) -> None:
    for key in table:
        if key not in known:
            raise KernelFileError(f"unknown key '{key}' in {what}{nearest(key, known)}", at[key])
    for key in needed:
        if key not in table:
            raise KernelFileError(f"{what} has no '{key}'", at[""])


def _read_numerics(table: Mapping[str, Any], where: _KeyLines) -> Numerics:
    at = {key: where.at("numerics", 0, key) for key in ("", *table)}
    _check_keys(table, ("accumulate", "deterministic", "allow"), (), "[numerics]", at)
    accumulate, deterministic = table.get("accumulate", ""), table.get("deterministic", True)
    allow = table.get("allow", [])
    if accumulate != "" and accumulate not in _ACCUMULATE:
        text = f"accumulate must be one of {', '.join(_ACCUMULATE)}, not {accumulate!r}"
        raise KernelFileError(text, at["accumulate"])
    if not isinstance(deterministic, bool):
        raise KernelFileError("deterministic must be true or false", at["deterministic"])
    if not isinstance(allow, list) or not all(a in _RELAXATIONS for a in allow):
        raise KernelFileError(f"allow must be a list out of {', '.join(_RELAXATIONS)}", at["allow"])
    return Numerics(accumulate, deterministic, tuple(allow))


def _refuse_duplicates(plan: PlanText) -> None:
    seen: dict[str, str] = {}
    named: Iterable[tuple[str, str, int]] = (
        *((p.name, "a parameter", p.line) for p in plan.params),
        *((let.name, "a let", let.value.line) for let in plan.lets),
        *((s.name, "a scratch buffer", s.line) for s in plan.scratch),
        *((m.name, "a tensor map", m.line_of("name")) for m in plan.tensor_maps),
    )
    for name, kind, line in named:
        if name in seen:
            raise KernelFileError(f"'{name}' is {seen[name]} already and cannot be {kind} too", line)
        seen[name] = kind


def _refuse_unused_tensor_maps(plan: PlanText) -> None:
    passed = {argument.expression.text.strip() for launch in plan.launches for argument in launch.args}
    for spec in plan.tensor_maps:
        if spec.name not in passed:
            raise KernelFileError(f"no launch has the tensor map {spec.name} among its args", spec.line)
