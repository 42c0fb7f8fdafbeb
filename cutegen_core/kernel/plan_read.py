"""Read the opening comment of a kernel file into the records of `plan_records`.

1. `plan_toml` parses the text and finds the line of each key.
2. Each section has one reader; the message about an unknown key suggests the most similar known key.
3. The last checks need the whole plan: no name is used twice, and every tensor map is passed to a launch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cutegen_core.kernel.expressions import Number, suggest_name
from cutegen_core.kernel.plan_records import (
    DEVICE_NAMES,
    LaunchSpec,
    Let,
    Located,
    Numerics,
    Parameter,
    PlanText,
    ScratchSpec,
    TensorMapSpec,
)
from cutegen_core.kernel.plan_toml import (
    KeyLines,
    check_keys,
    check_name,
    load_toml,
    read_expression,
    read_expressions,
    read_table,
    read_tables,
)
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES
from cutegen_core.records.problem import ITEMSIZE

_PARAMETER_KEYS = ("default", "values", "emulator")
_SECTIONS = ("idea", "let", "params", "scratch", "launch", "numerics", "tensormap")
_LAUNCH_KEYS = ("kernel", "grid", "block", "args", "smem", "cluster", "cooperative", "when", "once")
_LISTS = ("grid", "block", "args", "cluster")
_TENSOR_MAP_CHOICES = {
    "swizzle": SWIZZLES, "interleave": INTERLEAVES, "l2_promotion": L2_PROMOTIONS, "oob_fill": OOB_FILLS,
}  # fmt: skip
_TENSOR_MAP_LISTS = ("box", "dims", "strides")
_TENSOR_MAP_KEYS = ("name", "tensor", *_TENSOR_MAP_LISTS, "offset", *_TENSOR_MAP_CHOICES)
_ACCUMULATE = ("float64", "float32", "float16", "bfloat16", "int32", "int64")
_RELAXATIONS = ("fast_math", "tf32", "bf16_accumulate", "fp16_accumulate", "atomics")
_READS = ("clock", "sm", "warp")
_KERNEL_NAME = re.compile(r"(::)?[A-Za-z_]\w*(::[A-Za-z_]\w*)* *(<[\w ,:<>()*+/%&|=!~.-]*>)?")
_MAX_VALUES = 64
_MAX_KERNEL_NAME = 500
_MAX_COMBINATIONS = 1 << 16


def read_plan(toml: str, first_line: int) -> PlanText:
    """Read the comment's TOML, which begins on line `first_line` of the file. Raise KernelFileError if malformed."""
    where = KeyLines(toml, first_line)
    data = load_toml(toml, where)
    _refuse_unknown_sections(data, where)
    idea = data.get("idea", "")
    if not isinstance(idea, str):
        raise KernelFileError("idea must be a text in quotes", where.at("", 0, "idea"))
    params, pruning = _read_params(read_table(data, "params", where), where)
    plan = PlanText(
        idea=idea,
        lets=_read_lets(read_table(data, "let", where), where),
        params=params,
        where=pruning,
        scratch=tuple(_read_scratch(t, i, where) for i, t in enumerate(read_tables(data, "scratch", where))),
        launches=tuple(_read_launch(t, i, where) for i, t in enumerate(read_tables(data, "launch", where))),
        tensor_maps=tuple(_read_tensor_map(t, i, where) for i, t in enumerate(read_tables(data, "tensormap", where))),
        numerics=_read_numerics(read_table(data, "numerics", where), where),
        lines=where.lines,
    )
    if not plan.launches:
        raise KernelFileError(
            "the plan launches nothing: add a [[launch]] with kernel, grid, block and args", first_line
        )
    _refuse_duplicates(plan)
    _refuse_unused_tensor_maps(plan)
    _check_order_of_once(plan)
    return plan


def _refuse_unknown_sections(data: Mapping[str, Any], where: KeyLines) -> None:
    for key in data:
        if key not in _SECTIONS:
            hint = "; it belongs into [params]" if key == "where" else suggest_name(key, _SECTIONS)
            raise KernelFileError(f"unknown section '{key}'{hint}", where.at(key))


def _read_lets(table: Mapping[str, Any], where: KeyLines) -> tuple[Let, ...]:
    lets = []
    for name, value in table.items():
        line = where.at("let", 0, name)
        check_name(name, "let", line)
        lets.append(Let(name, read_expression(value, line, f"let {name}")))
    return tuple(lets)


def _read_params(table: Mapping[str, Any], where: KeyLines) -> tuple[tuple[Parameter, ...], tuple[Located, ...]]:
    params, pruning = [], []
    for name, value in table.items():
        line = where.at("params", 0, name)
        if name == "where":
            pruning = [read_expression(v, line, "where") for v in (value if isinstance(value, list) else [value])]
            continue
        check_name(name, "parameter", line)
        params.append(_read_parameter(name, value, line))
    combinations = math.prod(len(p.values) for p in params)
    if combinations > _MAX_COMBINATIONS:
        text = f"the values make {combinations:,} combinations; at most {_MAX_COMBINATIONS:,} are possible: list fewer"
        raise KernelFileError(text, where.at("params"))
    known = {p.name for p in params} | set(DEVICE_NAMES)
    for condition in pruning:
        for name in sorted(condition.expression.names - known):
            text = f"where may use parameters and device numbers only, not '{name}'{suggest_name(name, known)}"
            raise KernelFileError(text, condition.line)
    return tuple(params), tuple(pruning)


def _read_parameter(name: str, value: object, line: int) -> Parameter:
    if not isinstance(value, dict):
        number = _read_number(name, value, line)
        return Parameter(name, number, (number,), line)
    for key in value:
        if key not in _PARAMETER_KEYS:
            raise KernelFileError(f"unknown key '{key}' of parameter {name}{suggest_name(key, _PARAMETER_KEYS)}", line)
    if "default" not in value:
        raise KernelFileError(f"parameter {name} has no default", line)
    default = _read_number(name, value["default"], line)
    listed = value.get("values", [default])
    if not isinstance(listed, list) or not 0 < len(listed) <= _MAX_VALUES:
        raise KernelFileError(f"values of parameter {name} must be a list of 1 to {_MAX_VALUES} numbers", line)
    values = tuple(_read_number(name, v, line) for v in listed)
    if default not in values:
        raise KernelFileError(f"the default {default} of parameter {name} is not among its values {listed}", line)
    emulator = _read_number(name, value["emulator"], line) if "emulator" in value else None
    if emulator is not None and type(emulator) is not type(default):
        raise KernelFileError(f"parameter {name}: emulator = {emulator} is of another type than the default", line)
    if emulator is not None and len(values) > 1 and emulator not in values:
        raise KernelFileError(f"parameter {name}: emulator = {emulator} is not among its values {listed}", line)
    return Parameter(name, default, values, line, emulator if emulator != default else None)


def _read_number(name: str, value: object, line: int) -> Number:
    finite = isinstance(value, int | float) and (abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value))
    if not isinstance(value, int | float) or not finite:
        form = "a finite 64-bit number, or { default = 256, values = [128, 256] }"
        raise KernelFileError(f"parameter {name} must be {form}", line)
    return value


def _read_scratch(table: Mapping[str, Any], index: int, where: KeyLines) -> ScratchSpec:
    what, keys = f"[[scratch]] number {index + 1}", ("name", "dtype", "shape", "init")
    at = {key: where.at("scratch", index, key) for key in ("", *table)}
    check_keys(table, keys, keys[:3], what, at)
    name, dtype, init = table["name"], table["dtype"], table.get("init", "none")
    if not isinstance(name, str):
        raise KernelFileError(f"{what}: the name must be a text in quotes", at["name"])
    check_name(name, "scratch buffer", at["name"])
    if dtype not in ITEMSIZE:
        raise KernelFileError(
            f"scratch {name}: unknown dtype {dtype!r}{suggest_name(str(dtype), ITEMSIZE)}", at["dtype"]
        )
    if init not in ("none", "zero"):
        raise KernelFileError(f'scratch {name}: init must be "none" or "zero", not {init!r}', at["init"])
    shape = read_expressions(table["shape"], at["shape"], f"shape of scratch {name}", 8)
    return ScratchSpec(name, dtype, shape, init == "zero", at[""])


def _read_tensor_map(table: Mapping[str, Any], index: int, where: KeyLines) -> TensorMapSpec:
    what, at = f"[[tensormap]] number {index + 1}", {k: where.at("tensormap", index, k) for k in ("", *table)}
    check_keys(table, _TENSOR_MAP_KEYS, ("name", "tensor", "box"), what, at)
    name, tensor = table["name"], table["tensor"]
    if not isinstance(name, str) or not isinstance(tensor, str):
        wrong = "tensor" if isinstance(name, str) else "name"
        raise KernelFileError(f"{what}: {wrong} must be a name in quotes", at[wrong])
    check_name(name, "tensor map", at["name"])
    lists = {k: read_expressions(table[k], at[k], f"{k} of {name}", 5) for k in _TENSOR_MAP_LISTS if k in table}
    for key in ("box", "dims"):
        if not lists.get(key, True):
            raise KernelFileError(f"{key} of {name} needs 1 to 5 entries, the fastest dimension first", at[key])
    chosen = {key: table.get(key, choices[0]) for key, choices in _TENSOR_MAP_CHOICES.items()}
    for key, choices in _TENSOR_MAP_CHOICES.items():
        if chosen[key] not in choices:
            raise KernelFileError(f"{key} of {name} must be one of {', '.join(choices)}, not {chosen[key]!r}", at[key])
    return TensorMapSpec(
        name=name, tensor=tensor.strip(), box=lists["box"], dims=lists.get("dims"), strides=lists.get("strides"),
        offset=read_expression(table["offset"], at["offset"], f"offset of {name}") if "offset" in table else None,
        lines=at, **chosen,
    )  # fmt: skip


def _read_launch(table: Mapping[str, Any], index: int, where: KeyLines) -> LaunchSpec:
    at = {key: where.at("launch", index, key) for key in ("", *table)}
    check_keys(table, _LAUNCH_KEYS, ("kernel", "grid", "block", "args"), f"[[launch]] number {index + 1}", at)
    kernel, cooperative = table["kernel"], table.get("cooperative", False)
    if not isinstance(kernel, str) or not _KERNEL_NAME.fullmatch(kernel.strip(" ")) or "<<" in kernel:
        text = f'kernel must name a __global__ function, such as "relu<BLOCK>", not {str(kernel)[:60]!r}'
        raise KernelFileError(text, at["kernel"])
    if len(kernel) > _MAX_KERNEL_NAME:
        text = f"the kernel's name has {len(kernel)} characters; at most {_MAX_KERNEL_NAME} are possible"
        raise KernelFileError(text, at["kernel"])
    if not isinstance(cooperative, bool):
        raise KernelFileError("cooperative must be true or false", at["cooperative"])
    once = table.get("once", False)
    if not isinstance(once, bool):
        raise KernelFileError("once must be true or false", at["once"])
    lists = {k: read_expressions(table[k], at[k], k, 64 if k == "args" else 3) for k in _LISTS if k in table}
    for key in ("grid", "block", "cluster"):
        if not lists.get(key, True):
            raise KernelFileError(f'{key} needs 1 to 3 entries, such as ["256"]', at[key])
    return LaunchSpec(
        kernel=kernel.strip().removeprefix("::"), line=at[""],
        grid=lists["grid"], block=lists["block"], args=lists["args"],
        smem=read_expression(table["smem"], at["smem"], "smem") if "smem" in table else None,
        cluster=lists.get("cluster", ()), cooperative=cooperative,
        when=read_expression(table["when"], at["when"], "when") if "when" in table else None, once=once,
    )  # fmt: skip


def _read_numerics(table: Mapping[str, Any], where: KeyLines) -> Numerics:
    at = {key: where.at("numerics", 0, key) for key in ("", *table)}
    check_keys(table, ("accumulate", "deterministic", "allow", "reads"), (), "[numerics]", at)
    accumulate, deterministic = table.get("accumulate", ""), table.get("deterministic", True)
    allow = table.get("allow", [])
    if accumulate != "" and accumulate not in _ACCUMULATE:
        text = f"accumulate must be one of {', '.join(_ACCUMULATE)}, not {accumulate!r}"
        raise KernelFileError(text, at["accumulate"])
    if not isinstance(deterministic, bool):
        raise KernelFileError("deterministic must be true or false", at["deterministic"])
    if not isinstance(allow, list) or not all(a in _RELAXATIONS for a in allow):
        raise KernelFileError(f"allow must be a list out of {', '.join(_RELAXATIONS)}", at["allow"])
    reads = table.get("reads", [])
    if not isinstance(reads, list) or not all(r in _READS for r in reads):
        raise KernelFileError(f"reads must be a list out of {', '.join(_READS)}", at["reads"])
    return Numerics(accumulate, deterministic, tuple(allow), tuple(reads))


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


def _check_order_of_once(plan: PlanText) -> None:
    """Refuse launches marked once behind others, which run later, and plans without others."""
    first = next((place for place, spec in enumerate(plan.launches) if not spec.once), None)
    if first is None:
        raise KernelFileError(
            "every launch is marked once: nothing is left that computes the outputs", plan.launches[0].line
        )
    late = next((spec for spec in plan.launches[first:] if spec.once), None)
    if late is not None:
        raise KernelFileError(
            f"{late.function} is marked once: it runs before all others, so write it before them", late.line
        )
