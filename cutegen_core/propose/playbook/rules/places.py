"""Rules of the operations whose result depends on where an element lies: triangles, arguments of extremes, ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast, like
from cutegen_core.propose.playbook.pointwise.operations import BINARY
from cutegen_core.propose.playbook.triangles import triangle
from cutegen_core.propose.playbook.values import (
    ONE,
    Size,
    Value,
    compute,
    constant,
    diagonal,
    expand,
    extent,
    fits,
    opposite,
    permute,
    position,
    reduce,
    reshape,
    unsqueeze,
    window,
)
from cutegen_core.records.graph import Ref

SHORT = ("float32", "float16", "bfloat16")
"""What a rank can hold beside a position: arithmetic in 32 bits."""
LOW_HALF = "({0} & 4294967295L)"
PLACE_OF_LARGEST = f"2147483647L - {LOW_HALF}"
"""Where the element of a rank lies, which is larger for an earlier position."""


def _triangle(comparison: str) -> Rule:
    return lambda call: triangle(call.tensor(0), comparison, call.number(1, "diagonal", 0))


def _diag(call: OperationCall) -> Value:
    x, offset = call.tensor(0), call.operand(1, "diagonal", 0)
    assert isinstance(offset, int)
    if len(x.dims) == 2:
        return diagonal_from(x, offset)
    if offset:
        raise not_in_playbook("a matrix of a diagonal with an offset")
    return triangle(expand(unsqueeze(x, 0), (x.dims[0], x.dims[0])), "==", 0)


def _diagonal(call: OperationCall) -> Value:
    x, first, second = call.tensor(0), int(call.number(2, "dim1", 0)), int(call.number(3, "dim2", 1))
    front = [first % len(x.dims), second % len(x.dims)]
    x = permute(x, front + [k for k in range(len(x.dims)) if k not in front])
    offset = call.operand(1, "offset", 0)
    assert isinstance(offset, int)
    return diagonal_from(x, offset)


def diagonal_from(x: Value, offset: int) -> Value:
    """Return the diagonal of the first two dimensions that begins so many columns, or -`offset` rows, further on."""
    if offset:
        axis, start = (1, extent(offset)) if offset > 0 else (0, opposite(offset))
        x = window(x, axis, start, x.dims[axis].less(start))
    return diagonal(x)


def position_of(kind: str, x: Value, axes: tuple[int, ...], keepdim: bool) -> Value:
    """Return where the largest ("max") or the smallest ("min") element lies; NaN is both, and the first one counts."""
    if not axes:
        x, axes = reshape(x, (x.numel,)), (0,)
    (axis,) = axes
    where = position(x.dims, axis)
    if x.dtype in SHORT:
        code = "ranked({0}, {1})" if kind == "max" else "ranked(-{0}, {1})"
        best = reduce("max", compute(code, cast(x, "float32"), where, dtype="int64"), (axis,), keepdim)
        return compute(PLACE_OF_LARGEST, best, dtype="int64")
    extreme = reduce(kind, x, (axis,), True)
    hit = compute("{0} == {1} || {0} != {0}", x, extreme, dtype="bool")
    never = like(where, 2**62)
    return reduce("min", compute("{0} ? {1} : {2}", hit, where, never, dtype="int64"), (axis,), keepdim)


def _argument(kind: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        return position_of(kind, call.tensor(0), call.integers(1, "dim"), call.flag(2, "keepdim"))

    return rule


def _extreme_and_position(kind: str) -> Callable[[OperationCall], dict[str, Value]]:
    """Return the results of `max` and `min`: those along a dimension have a second one, the positions."""

    def results(call: OperationCall) -> dict[str, Value]:
        name, x = call.node.name, call.tensor(0)
        if isinstance(call.operand(1), Ref):
            return {name: compute(BINARY[f"{kind}imum"], x, call.tensor(1), dtype=call.node.dtype)}
        axes, keepdim = call.integers(1, "dim"), call.flag(2, "keepdim")
        found = {name: reduce(kind, x, axes, keepdim)}
        return {**found, f"{name}[1]": position_of(kind, x, axes, keepdim)} if axes else found

    return results


SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "max": _extreme_and_position("max"), "min": _extreme_and_position("min"),
}  # fmt: skip


def _filled(number: float) -> Rule:
    """Return a rule for a tensor of one number, of the extents of the operand or of those it names."""

    def rule(call: OperationCall) -> Value:
        dims = tuple(extent(size) for size in call.node.shape)
        if call.node.args and call.values.get(getattr(call.operand(0), "node", "")) is not None:
            source = call.tensor(0)
            dims = source.dims if fits(source.dims, call.node.shape) else dims
        return expand(constant(number, call.node.dtype), dims)

    return rule


def _full(position_of_number: int) -> Rule:
    def rule(call: OperationCall) -> Value:
        return _filled(call.number(position_of_number, "fill_value", 0))(call)

    return rule


def _arange(call: OperationCall) -> Value:
    given = [call.operand(k) for k in range(len(call.node.args))]
    numbers = [a for a in given if isinstance(a, int | float) and not isinstance(a, bool)]
    start, step = (numbers[0] if len(numbers) > 1 else 0), (numbers[2] if len(numbers) > 2 else 1)
    counted = cast(position((extent(call.node.shape[0]),), 0), call.node.dtype)
    code = "{1} + {0} * {2}"
    return compute(code, counted, like(counted, start), like(counted, step), dtype=call.node.dtype)


def _linspace(call: OperationCall) -> Value:
    """Return equal steps from both ends, as torch takes them."""
    if call.node.dtype not in FLOATS:
        raise not_in_playbook(f"a range of {call.node.dtype} from one number to another")
    counted = cast(position((extent(call.node.shape[0]),), 0), call.node.dtype)
    start, end = (like(counted, call.number(k, name, 0)) for k, name in enumerate(("start", "end")))
    last = Size((), call.node.dtype, counted.dims[0].less(ONE).text)
    step = compute("{2} > 0 ? ({1} - {0}) / {2} : {T}(0)", start, end, last, dtype=call.node.dtype)
    code = "{0} < ({3} + 1) / 2 ? {1} + {0} * {4} : {2} - ({3} - {0}) * {4}"
    return compute(code, counted, start, end, last, step, dtype=call.node.dtype)


RULES: Mapping[str, Rule] = {
    "triu": _triangle(">="), "tril": _triangle("<="), "diag": _diag, "diagonal": _diagonal,
    "trace": lambda c: reduce("sum", diagonal(c.tensor(0)), (0,), False),
    "argmax": _argument("max"), "argmin": _argument("min"),
    "zeros_like": _filled(0), "ones_like": _filled(1), "zeros": _filled(0), "ones": _filled(1),
    "empty_like": _filled(0), "empty": _filled(0), "new_empty": _filled(0), "new_zeros": _filled(0),
    "new_ones": _filled(1), "full_like": _full(1), "full": _full(1), "new_full": _full(2),
    "scalar_tensor": _full(0),
    "arange": _arange, "linspace": _linspace,
}  # fmt: skip
