"""Check that a launch marked `once` depends on nothing but the model's parameters and buffers.

1. Its expressions, and the shapes of scratch that it takes, use no tensor that changes from call to call, directly or
   through a let; numbers of the problem count as fixed.
2. Its arguments are parameters, buffers, scratch, tensor maps of these, and numbers.
3. Scratch that it takes is kept: it makes all of it (no `init`), and the other launches may only read it, which the
   executors enforce.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cutegen_core.kernel.plan_records import LaunchSpec, Located, PlanText, ScratchSpec
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.problem import Signature, TensorRole

_FIXED = (TensorRole.PARAMETER, TensorRole.BUFFER)


def kept_scratch(plan: PlanText) -> frozenset[str]:
    """Return the scratch buffers that launches marked once take, by themselves or through a tensor map."""
    tensors = {spec.name: spec.tensor for spec in plan.tensor_maps}
    named = {name for spec in plan.launches if spec.once for name in _names(spec.args)}
    named |= {tensors[name] for name in named if name in tensors}
    return frozenset(spec.name for spec in plan.scratch if spec.name in named)


def check_once(plan: PlanText, signature: Signature) -> None:
    """Raise KernelFileError, with the line, for a launch marked once that could see what changes from call to call."""
    if not any(spec.once for spec in plan.launches):
        return
    changing = _changing(plan, signature)
    for spec in plan.launches:
        for names, line in _used(spec) if spec.once else ():
            if found := sorted(names & changing):
                raise KernelFileError(
                    f"{spec.function} is marked once, but uses '{found[0]}', which changes with each call: it may use "
                    "parameters and buffers of the model, what follows from them, and scratch", line,
                )  # fmt: skip
    kept = kept_scratch(plan)
    for scratch in plan.scratch:
        if scratch.name in kept:
            _check_kept(scratch, changing)


def _check_kept(scratch: ScratchSpec, changing: frozenset[str]) -> None:
    if scratch.zero:
        text = f"scratch {scratch.name}: a launch marked once makes it, all of it: leave out init"
        raise KernelFileError(text, scratch.line)
    if found := sorted(_names(scratch.shape) & changing):
        text = f"scratch {scratch.name}: a launch marked once makes it, but its shape depends on '{found[0]}'"
        raise KernelFileError(f"{text}, which changes with each call", scratch.line)


def _changing(plan: PlanText, signature: Signature) -> frozenset[str]:
    """Return the names that depend on inputs or outputs: these, and lets and tensor maps made of them."""
    found = {tensor.name for tensor in signature.tensors if tensor.role not in _FIXED}
    for let in plan.lets:
        if let.value.expression.names & found:
            found.add(let.name)
    for spec in plan.tensor_maps:
        located = (*spec.box, *(spec.dims or ()), *(spec.strides or ()), *([spec.offset] if spec.offset else ()))
        if spec.tensor in found or _names(located) & found:
            found.add(spec.name)
    return frozenset(found)


def _used(spec: LaunchSpec) -> Iterator[tuple[frozenset[str], int]]:
    """Yield the names that each part of a launch uses, with its line."""
    rest = (each for each in (spec.smem, spec.when) if each is not None)
    for located in (*spec.grid, *spec.block, *spec.cluster, *spec.args, *rest):
        yield located.expression.names, located.line
    yield spec.template_names, spec.line


def _names(located: Iterable[Located]) -> frozenset[str]:
    return frozenset[str]().union(*(each.expression.names for each in located))
