"""Evaluate a plan's expressions for one workload and check the result against the device's limits.

1. Complete and check the parameters (`complete_params`); evaluate `[let]` in order.
2. Evaluate the scratch buffers, the launches whose `when` is true, and the tensor maps that these launches use.
3. Compare threads, grid, cluster and shared memory with the device (`plan_limits`), and tensor maps with the rules of
   descriptors (`tensor_map_rules`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from cutegen_core.kernel.expressions import ExpressionError, Number, Scope, TensorFacts, suggest_name
from cutegen_core.kernel.plan_limits import MAX_SCRATCH_BYTES, DeviceNumbers, check_launch, format_size
from cutegen_core.kernel.plan_once import check_once, kept_scratch
from cutegen_core.kernel.plan_records import (
    DEVICE_NAMES,
    Instance,
    LaunchSpec,
    Located,
    Parameter,
    PlanText,
    ScratchSpec,
    TensorMapSpec,
)
from cutegen_core.kernel.tensor_map_rules import find_broken_rule
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import (
    Argument,
    Dim3,
    Launch,
    LaunchPlan,
    ScalarArgument,
    Scratch,
    TensorArgument,
    TensorMap,
    TensorMapArgument,
)
from cutegen_core.records.problem import Signature, TensorSpec

TENSOR_MAP_ARCH = 90
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(frozen=True)
class _Context:
    scope: Scope
    dtypes: Mapping[str, str]
    device: DeviceNumbers
    outputs_empty: bool
    lets: frozenset[str]
    instances: tuple[Instance, ...]
    tensor_maps: Mapping[str, TensorMapSpec]


def complete_params(params: tuple[Parameter, ...], chosen: Mapping[str, Number]) -> dict[str, Number]:
    """Return `chosen` completed with the defaults. Raise KernelFileError for an undeclared name or a wrong type."""
    known = {p.name: p for p in params}
    for name, value in chosen.items():
        if name not in known:
            raise KernelFileError(f"there is no parameter '{name}' in this file{suggest_name(name, known)}")
        if isinstance(value, float) and not isinstance(known[name].default, float):
            raise KernelFileError(f"parameter {name} is a whole number; {value} is not", known[name].line)
    return {p.name: chosen.get(p.name, p.default) for p in params}


def check_where(where: Iterable[Located], values: Mapping[str, Number], device: DeviceNumbers) -> None:
    """Raise KernelFileError for the first condition that these parameters break."""
    scope = Scope(numbers={**values, **_device_numbers(device)})
    for condition in where:
        if not _evaluate(condition, scope, "where"):
            shown = ", ".join(f"{n} = {scope.numbers[n]}" for n in sorted(condition.expression.names))
            raise KernelFileError(
                f'the parameters break where = "{condition.expression.text}" ({shown})', condition.line
            )


def resolve_plan(
    plan: PlanText, signature: Signature, device: DeviceNumbers, params: Mapping[str, Number], workload: str = ""
) -> LaunchPlan:
    """Resolve the launches, scratch buffers and tensor maps of one workload.

    Args:
        workload: name used in messages only.

    Raises:
        KernelFileError: an unknown name, a non-integer size or an exceeded limit; with the line and the numbers.
    """
    try:
        values = complete_params(plan.params, params)
        check_where(plan.where, values, device)
        check_once(plan, signature)
        context, kept = _make_context(plan, signature, device, values), kept_scratch(plan)
        scratch = tuple(_resolve_scratch(spec, context.scope, kept=spec.name in kept) for spec in plan.scratch)
        context = _add_scratch(context, scratch)
        found = [_resolve_launch(spec, context) for spec in plan.launches if _applies(spec, context)]
        if not found and not context.outputs_empty:
            raise KernelFileError("no [[launch]] applies: every 'when' is false", plan.launches[0].line)
        launches = tuple(launch for launch in found if launch is not None)
        return LaunchPlan(launches, scratch, _resolve_tensor_maps(launches, context))
    except KernelFileError as error:
        if not workload:
            raise
        text = re.sub(r"^line \d+: ", "", str(error))
        raise KernelFileError(f"workload '{workload}': {text}", error.line) from error


def _device_numbers(device: DeviceNumbers) -> dict[str, Number]:
    digits = re.search(r"\d+", device.arch)
    numbers = (device.sm_count, device.smem_max, device.warp_size, int(digits[0]) if digits else 0)
    return dict(zip(DEVICE_NAMES, numbers, strict=True))


def _make_context(
    plan: PlanText, signature: Signature, device: DeviceNumbers, values: Mapping[str, Number]
) -> _Context:
    tensors: dict[str, TensorFacts] = {t.name: t for t in signature.tensors}
    own = [(p.name, p.line) for p in plan.params] + [(let.name, let.value.line) for let in plan.lets]
    for name, line in own + [(m.name, m.line_of("name")) for m in plan.tensor_maps]:
        if name in tensors or name in signature.scalars:
            raise KernelFileError(f"'{name}' is a name of the problem's signature; give it another name here", line)
    numbers = {**signature.scalars, **values, **_device_numbers(device)}
    for let in plan.lets:
        numbers[let.name] = _evaluate(let.value, Scope(tensors, numbers), f"let {let.name}")
    return _Context(
        scope=Scope(tensors, numbers),
        dtypes={t.name: t.dtype for t in signature.tensors},
        device=device,
        outputs_empty=all(t.numel == 0 for t in signature.outputs),
        lets=frozenset(let.name for let in plan.lets),
        instances=plan.instances,
        tensor_maps={m.name: m for m in plan.tensor_maps},
    )


def _add_scratch(context: _Context, scratch: tuple[Scratch, ...]) -> _Context:
    tensors = {**context.scope.tensors, **{s.name: TensorSpec(s.name, s.dtype, s.shape) for s in scratch}}
    dtypes = {**context.dtypes, **{s.name: s.dtype for s in scratch}}
    return replace(context, scope=Scope(tensors, context.scope.numbers), dtypes=dtypes)


def _resolve_scratch(spec: ScratchSpec, scope: Scope, *, kept: bool) -> Scratch:
    name, dtype, line = spec.name, spec.dtype, spec.line
    if name in scope.tensors:
        raise KernelFileError(f"scratch '{name}' is a tensor of the problem already; give it another name", line)
    extents = tuple(_evaluate_integer(e, scope, f"shape of scratch {name}") for e in spec.shape)
    if min(extents, default=0) < 0:
        raise KernelFileError(f"scratch {name} has a negative extent: {extents}", line)
    size = TensorSpec(name, dtype, extents).nbytes
    if size > MAX_SCRATCH_BYTES:
        raise KernelFileError(
            f"scratch {name} needs {format_size(size)} (at most {format_size(MAX_SCRATCH_BYTES)})", line
        )
    return Scratch(name, dtype, extents, spec.zero, kept)


def _applies(spec: LaunchSpec, context: _Context) -> bool:
    return spec.when is None or bool(_evaluate(spec.when, context.scope, "when"))


def _resolve_launch(spec: LaunchSpec, context: _Context) -> Launch | None:
    """Resolve one launch; None if its grid is empty because there is nothing to write."""
    grid, block = _resolve_dim3(spec.grid, context.scope, "grid"), _resolve_dim3(spec.block, context.scope, "block")
    cluster = _resolve_dim3(spec.cluster, context.scope, "cluster") if spec.cluster else (1, 1, 1)
    smem = _evaluate_integer(spec.smem, context.scope, "smem") if spec.smem else 0
    if prod(grid) == 0 and min(grid) == 0 and context.outputs_empty:
        return None
    check_launch(spec, grid, block, cluster, smem, context.device)
    args = tuple(_resolve_argument(a, context) for a in spec.args)
    return Launch(_instance(spec, context), grid, block, smem, args, cluster, spec.cooperative, spec.line, spec.once)


def _instance(spec: LaunchSpec, context: _Context) -> str:
    """Return the kernel with the values of the lets among its template arguments; it must be one that was compiled."""
    names = sorted(spec.template_names & context.lets)
    if not names:
        return spec.kernel
    values = {name: context.scope.find_number(name) for name in names}
    for name, value in values.items():
        if not isinstance(value, int):
            text = f"{spec.function}: a template argument must be a whole number; {name} is {value}"
            raise KernelFileError(text, spec.line)
    function, bracket, arguments = spec.kernel.partition("<")
    made = f"{function}{bracket}{_NAME.sub(lambda found: str(values.get(found[0], found[0])), arguments)}"
    if context.instances and not any(instance.kernel == made for instance in context.instances):
        told = ", ".join(f"{name} = {value}" for name, value in values.items())
        text = (
            f"{spec.function}: no instance was compiled for {told}: give the launch a 'when', and other sizes another"
        )
        raise KernelFileError(text, spec.line)
    return made


def _resolve_argument(located: Located, context: _Context) -> Argument:
    tree, text = located.expression.tree, located.expression.text
    if isinstance(tree, ast.Name) and tree.id in context.tensor_maps:
        return TensorMapArgument(tree.id)
    if isinstance(tree, ast.Name) and tree.id in context.dtypes and tree.id not in context.scope.numbers:
        return TensorArgument(tree.id, context.dtypes[tree.id])
    return ScalarArgument(_evaluate(located, context.scope, f"argument '{text}'"), text)


def _resolve_tensor_maps(launches: Iterable[Launch], context: _Context) -> tuple[TensorMap, ...]:
    """Resolve the tensor maps these launches use. Other tensor maps may be invalid for this workload."""
    used = {a.name for launch in launches for a in launch.args if isinstance(a, TensorMapArgument)}
    return tuple(_resolve_tensor_map(spec, context) for name, spec in context.tensor_maps.items() if name in used)


def _resolve_tensor_map(spec: TensorMapSpec, context: _Context) -> TensorMap:
    if _device_numbers(context.device)["arch"] < TENSOR_MAP_ARCH:
        text = f"tensor map {spec.name}: {context.device.arch} has no tensor maps, they begin with sm_90"
        raise KernelFileError(f"{text}; load through CuTe copies, or give the launch a 'when'", spec.line)
    if spec.tensor not in context.dtypes:
        known = suggest_name(spec.tensor, context.dtypes)
        raise KernelFileError(
            f"tensor map {spec.name}: there is no tensor '{spec.tensor}'{known}", spec.line_of("tensor")
        )
    tensor, dtype = context.scope.tensors[spec.tensor], context.dtypes[spec.tensor]

    def numbers(key: str, located: tuple[Located, ...] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
        what = f"{key} of tensor map {spec.name}"
        return otherwise if located is None else tuple(_evaluate_integer(e, context.scope, what) for e in located)

    dims = numbers("dims", spec.dims, tuple(reversed(tensor.shape)))
    dense = tuple(prod(dims[: i + 1]) for i in range(len(dims) - 1))
    made = TensorMap(
        name=spec.name, tensor=spec.tensor, dtype=dtype, dims=dims,
        offset_bytes=_evaluate_integer(spec.offset, context.scope, "offset") * tensor.itemsize if spec.offset else 0,
        strides_bytes=tuple(s * tensor.itemsize for s in numbers("strides", spec.strides, dense)),
        box=numbers("box", spec.box, ()), element_strides=(1,) * len(dims), swizzle=spec.swizzle,
        interleave=spec.interleave, l2_promotion=spec.l2_promotion, oob_fill=spec.oob_fill, line=spec.line,
    )  # fmt: skip
    if broken := find_broken_rule(made, tensor.numel, context.device.smem_max):
        raise KernelFileError(f"tensor map {spec.name}: {broken.message}", spec.line_of(broken.key))
    return made


def _resolve_dim3(located: tuple[Located, ...], scope: Scope, what: str) -> Dim3:
    x, y, z = (*(_evaluate_integer(e, scope, what) for e in located), 1, 1, 1)[:3]
    return x, y, z


def _evaluate(located: Located, scope: Scope, what: str) -> Number:
    try:
        return located.expression.evaluate(scope)
    except ExpressionError as error:
        raise KernelFileError(f"{what}: {error}", located.line) from error


def _evaluate_integer(located: Located, scope: Scope, what: str) -> int:
    try:
        return located.expression.evaluate_integer(scope)
    except ExpressionError as error:
        raise KernelFileError(f"{what}: {error}", located.line) from error
