"""A traced graph in ATen operations -> `Value`s, composite operations taken apart.

softmax, layer norm and their kin become reductions and pointwise arithmetic in their numerically stable form, products
become `Product`, views become `Move`. What has no rule raises NotInPlaybook with the operation's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.graph import Graph, Node, Operand, Ref
from cutegen_core.playbook.pointwise import BINARY, COMPARISONS, GELU_ERF, GELU_TANH, UNARY
from cutegen_core.playbook.values import (
    ONE,
    Extent,
    NotInPlaybook,
    Product,
    Size,
    Value,
    broadcast,
    compute,
    constant,
    expand,
    load,
    permute,
    product,
    reduce,
    reshape,
    squeeze,
    unsqueeze,
    window,
)
from cutegen_core.problem import Signature

COVERED = (
    "covered are elementwise chains with broadcasting, row reductions (sum, mean, max, min, norm, variance, softmax, "
    "log-softmax, logsumexp, layer / rms / group norm) over one block of dimensions, and matrix products with an "
    "elementwise epilogue"
)
_FLOATS = ("float64", "float32", "float16", "bfloat16")


def lower(graph: Graph, signature: Signature) -> tuple[Value, ...]:
    """One value per output of the signature. Raises NotInPlaybook naming the first operation without a rule."""
    if graph.reason or not graph.nodes:
        raise NotInPlaybook(f"the reference could not be traced ({graph.reason or 'no operations'}); {COVERED}")
    names = {t.name for t in signature.inputs}
    values: dict[str, Value] = {}
    for node in graph.nodes:
        if node.op == "input" and node.name in names:
            values[node.name] = load(node.name, node.dtype, node.shape)
        elif node.op == "constant" and node.name in graph.constants:
            values[node.name] = constant(graph.constants[node.name], node.dtype)
        elif node.op in _SEVERAL_RESULTS:
            values.update(_SEVERAL_RESULTS[node.op](_Call(node, values)))
        elif node.op != "input":
            values[node.name] = _Call(node, values).value()
    missing = [name for name in graph.outputs if name not in values]
    if missing:
        raise NotInPlaybook(f"the output '{missing[0]}' is not a plain tensor value; {COVERED}")
    return tuple(values[name] for name in graph.outputs)


@dataclass(frozen=True)
class _Call:
    """One node with its operands at hand."""

    node: Node
    values: Mapping[str, Value]

    def value(self) -> Value:
        """The value of the node, in the node's dtype."""
        rule = self.node.op.removeprefix("aten.")
        if rule in RULES:
            return RULES[rule](self)
        if rule in UNARY:
            return compute(UNARY[rule], self.floating(0), dtype=self.result_dtype(rule))
        if rule in BINARY:
            return compute(BINARY[rule], self.tensor(0), self.scaled(1), dtype=self.result_dtype(rule))
        raise NotInPlaybook(f"'{self.node.op}' is not in the playbook; {COVERED}")

    def result_dtype(self, rule: str) -> str:
        return "bool" if rule in COMPARISONS else self.node.dtype

    def operand(self, index: int, name: str = "", default: Operand = None) -> Operand:
        """Positional operand `index`, or the keyword `name`, or `default`."""
        if index < len(self.node.args):
            return self.node.args[index]
        return self.node.kwargs.get(name, default)

    def tensor(self, index: int, name: str = "") -> Value:
        """An operand as a value, cast to the arithmetic of the result where it is a number."""
        operand = self.operand(index, name)
        if isinstance(operand, Ref):
            if operand.node not in self.values:
                raise NotInPlaybook(f"'{self.node.op}' of '{operand.node}' is not in the playbook; {COVERED}")
            return self.values[operand.node]
        if isinstance(operand, bool | int | float):
            return constant(operand, self._number_dtype(operand))
        raise NotInPlaybook(f"'{self.node.op}' with operand {operand!r} is not in the playbook; {COVERED}")

    def _number_dtype(self, number: bool | int | float) -> str:
        """Numbers take the dtype of the tensors they meet, unless they are floats among integers."""
        for operand in self.node.args:
            if isinstance(operand, Ref) and operand.node in self.values:
                dtype = self.values[operand.node].dtype
                if dtype in _FLOATS or isinstance(number, int):
                    return dtype
        return self.node.dtype

    def floating(self, index: int) -> Value:
        """A tensor operand in the result's dtype: integers entering float arithmetic are converted first."""
        value = self.tensor(index)
        return cast(value, self.node.dtype) if self.node.dtype in _FLOATS else value

    def scaled(self, index: int) -> Value:
        """The second operand of add and sub, with `alpha`."""
        value, alpha = self.tensor(index), self.node.kwargs.get("alpha", 1)
        if alpha == 1 or not isinstance(alpha, int | float):
            return value
        return compute("{0} * {1}", value, constant(alpha, value.dtype), dtype=value.dtype)

    def has(self, index: int, name: str = "") -> bool:
        return self.operand(index, name) is not None

    def number(self, index: int, name: str, default: float) -> float:
        value = self.operand(index, name, default)
        if not isinstance(value, int | float):
            raise NotInPlaybook(f"'{self.node.op}' with {name} = {value!r} is not in the playbook; {COVERED}")
        return value

    def integers(self, index: int, name: str = "") -> tuple[int, ...]:
        """A dimension or a list of them; empty when it is not given."""
        value = self.operand(index, name)
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        return tuple(int(i) for i in items if isinstance(i, int))

    def flag(self, index: int, name: str, default: bool = False) -> bool:
        return bool(self.operand(index, name, default))


def cast(value: Value, dtype: str) -> Value:
    """Another dtype; arithmetic between half, bfloat16 and float stays in float, so only kinds of arithmetic matter."""
    return value if value.dtype == dtype else compute("static_cast<{T}>({0})", value, dtype=dtype)


def _like(value: Value, number: float) -> Value:
    return constant(number, value.dtype)


def _add(a: Value, b: Value) -> Value:
    return compute("{0} + {1}", a, b, dtype=a.dtype)


def _sub(a: Value, b: Value) -> Value:
    return compute("{0} - {1}", a, b, dtype=a.dtype)


def _mul(a: Value, b: Value) -> Value:
    return compute("{0} * {1}", a, b, dtype=a.dtype)


def _apply(rule: str, value: Value) -> Value:
    return compute(UNARY[rule], value, dtype=value.dtype)


def _mean(value: Value, axes: Sequence[int], keepdim: bool, correction: float = 0) -> Value:
    """Sum divided by the number of elements, which the plan computes for each workload."""
    total = reduce("sum", value, axes, keepdim)
    where = {a % len(value.dims) for a in axes} or set(range(len(value.dims)))
    count: Value = Size((), value.dtype, product([value.dims[a] for a in sorted(where)]))
    if correction:
        count = compute("{0} - {1}", count, _like(value, correction), dtype=value.dtype)
    return compute("{0} / {1}", total, count, dtype=value.dtype)


def _softmax(call: _Call, log: bool) -> Value:
    x, axes = call.floating(0), call.integers(1, "dim")
    shifted = _sub(x, reduce("max", x, axes, True))
    total = reduce("sum", _apply("exp", shifted), axes, True)
    if log:
        return _sub(shifted, _apply("log", total))
    return compute("{0} / {1}", _apply("exp", shifted), total, dtype=x.dtype)


def _logsumexp(call: _Call) -> Value:
    x, axes, keepdim = call.floating(0), call.integers(1, "dim"), call.flag(2, "keepdim")
    largest = reduce("max", x, axes, True)
    total = reduce("sum", _apply("exp", _sub(x, largest)), axes, True)
    result = _add(_apply("log", total), largest)
    return result if keepdim else squeeze(result, [a % len(x.dims) for a in axes])


def _normalised(x: Value, axes: Sequence[int], eps: float, centred: bool) -> Value:
    """(x - mean) / sqrt(mean of squares + eps), in two passes so that a large mean does no harm."""
    moved = _sub(x, _mean(x, axes, True)) if centred else x
    variance = _mean(_apply("square", moved), axes, True)
    return _mul(moved, _apply("rsqrt", _add(variance, _like(x, eps))))


def _affine(call: _Call, value: Value, weight: int, bias: int, shaped: Callable[[Value], Value]) -> Value:
    if weight >= 0 and call.has(weight, "weight"):
        value = _mul(value, shaped(call.tensor(weight, "weight")))
    if bias >= 0 and call.has(bias, "bias"):
        value = _add(value, shaped(call.tensor(bias, "bias")))
    return value


def _layer_norm(call: _Call) -> Value:
    x = call.tensor(0)
    axes = range(-len(call.integers(1, "normalized_shape")), 0)
    value = _normalised(x, axes, call.number(4, "eps", 1e-5), centred=True)
    return _affine(call, value, 2, 3, lambda v: v)


def _rms_norm(call: _Call) -> Value:
    x = call.tensor(0)
    axes = range(-len(call.integers(1, "normalized_shape")), 0)
    eps = call.operand(3, "eps")
    if not isinstance(eps, int | float):
        eps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[x.dtype]
    return _affine(call, _normalised(x, axes, eps, centred=False), 2, -1, lambda v: v)


def _group_norm(call: _Call) -> Value:
    x, (groups,) = call.tensor(0), call.integers(1, "num_groups")
    sizes = (x.sizes[0], groups, x.sizes[1] // groups, *x.sizes[2:])
    grouped = reshape(x, sizes, inferred=2)
    value = _normalised(grouped, range(2, len(sizes)), call.number(4, "eps", 1e-5), centred=True)

    def shaped(v: Value) -> Value:
        v = reshape(v, sizes[1:3], inferred=1)
        for _ in sizes[3:]:
            v = unsqueeze(v, -1)
        return v

    return reshape(_affine(call, value, 2, 3, shaped), x.sizes)


def _batch_norm(call: _Call) -> Value:
    if call.flag(5, "training"):
        raise NotInPlaybook(f"batch norm in training mode is not in the playbook; {COVERED}")
    x = call.tensor(0)

    def shaped(v: Value) -> Value:
        for _ in x.dims[2:]:
            v = unsqueeze(v, -1)
        return v

    mean, variance = shaped(call.tensor(3)), shaped(call.tensor(4))
    scale = _apply("rsqrt", _add(variance, _like(x, call.number(7, "eps", 1e-5))))
    return _affine(call, _mul(_sub(x, mean), scale), 1, 2, shaped)


def _variance(call: _Call, root: bool) -> Value:
    x, axes, keepdim = call.tensor(0), call.integers(1, "dim"), call.flag(3, "keepdim")
    correction = call.number(99, "correction", 1)
    if isinstance(call.operand(1), bool):
        axes, correction = (), float(call.flag(1, "unbiased"))
    elif isinstance(call.operand(2), bool):
        correction = float(call.flag(2, "unbiased"))
    squares = _apply("square", _sub(x, _mean(x, axes, True)))
    value = _mean(squares, axes, keepdim, correction)
    return _apply("sqrt", value) if root else value


def _norm(call: _Call) -> Value:
    x, power = call.tensor(0), call.number(1, "p", 2)
    axes, keepdim = call.integers(2, "dim"), call.flag(3, "keepdim")
    if power == 2:
        return _apply("sqrt", reduce("sum", _apply("square", x), axes, keepdim))
    if power == 1:
        return reduce("sum", _apply("abs", x), axes, keepdim)
    if math.isinf(power):
        return reduce("max" if power > 0 else "min", _apply("abs", x), axes, keepdim)
    raise NotInPlaybook(f"a norm of order {power} is not in the playbook; {COVERED}")


def _sum(call: _Call) -> Value:
    return reduce("sum", cast(call.tensor(0), call.node.dtype), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _mean_rule(call: _Call) -> Value:
    return _mean(call.floating(0), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _extreme(kind: str) -> Callable[[_Call], Value]:
    def rule(call: _Call) -> Value:
        if isinstance(call.operand(1), Ref):
            return compute(BINARY[f"{kind}imum"], call.tensor(0), call.tensor(1), dtype=call.node.dtype)
        return reduce(kind, call.tensor(0), call.integers(1, "dim"), call.flag(2, "keepdim"))

    return rule


def _getitem(call: _Call) -> Value:
    source, index = call.operand(0), call.operand(1)
    if isinstance(source, Ref) and f"{source.node}[{index}]" in call.values:
        return call.values[f"{source.node}[{index}]"]
    if isinstance(source, Ref) and index == 0 and source.node in call.values:
        return call.values[source.node]
    raise NotInPlaybook(f"the second result of an operation (an index) is not in the playbook; {COVERED}")


def _loss(code: str) -> Callable[[_Call], Value]:
    def rule(call: _Call) -> Value:
        each = compute(code, call.tensor(0), call.tensor(1), dtype=call.node.dtype)
        reduction = call.operand(2, "reduction", 1)
        if reduction in (0, "none"):
            return each
        return _mean(each, (), False) if reduction in (1, "mean") else reduce("sum", each, (), False)

    return rule


def _matmul(call: _Call) -> Value:
    return matmul(call.tensor(0), call.tensor(1), call.node.dtype)


def matmul(a: Value, b: Value, dtype: str) -> Value:
    """torch.matmul: a product with a vector is a row reduction, everything else a (batched) `Product`."""
    if dtype not in _FLOATS:
        raise NotInPlaybook(f"a product of {dtype} is not in the playbook; {COVERED}")
    if len(b.dims) == 1:
        return reduce("sum", _mul(a, b), (-1,), False)
    if len(a.dims) == 1:
        return reduce("sum", _mul(unsqueeze(a, -1), b), (-2,), False)
    if b.sizes[-1] == 1 and len(b.dims) == 2:
        return reduce("sum", _mul(a, squeeze(b, (1,))), (-1,), True)
    rank = max(len(a.dims), len(b.dims))
    a, b = (_padded(v, rank) for v in (a, b))
    batch = broadcast([_batch_part(a), _batch_part(b)]) if rank > 2 else ()
    return Product((*batch, a.dims[-2], b.dims[-1]), dtype, a, b)


def _padded(value: Value, rank: int) -> Value:
    while len(value.dims) < rank:
        value = unsqueeze(value, 0)
    return value


def _batch_part(value: Value) -> Value:
    return Value(value.dims[:-2], value.dtype)


def _linear(call: _Call) -> Value:
    product = matmul(call.tensor(0), permute(call.tensor(1), (1, 0)), call.node.dtype)
    return _add(product, call.tensor(2)) if call.has(2, "bias") else product


def _addmm(call: _Call) -> Value:
    product = matmul(call.tensor(1), call.tensor(2), call.node.dtype)
    alpha, beta = (call.node.kwargs.get(k, 1) for k in ("alpha", "beta"))
    bias = call.tensor(0)
    if isinstance(alpha, int | float) and alpha != 1:
        product = _mul(product, _like(product, alpha))
    if isinstance(beta, int | float) and beta != 1:
        bias = _mul(bias, _like(bias, beta))
    return _add(product, bias)


def _einsum(call: _Call) -> Value:
    equation, tensors = call.operand(0), call.operand(1)
    if not isinstance(equation, str) or not isinstance(tensors, tuple) or len(tensors) != 2:
        raise NotInPlaybook(f"this einsum is not in the playbook; {COVERED}")
    a, b = (call.values[t.node] for t in tensors if isinstance(t, Ref))
    inputs, _, out = equation.replace(" ", "").partition("->")
    left, right = inputs.split(",")
    batch = [c for c in out if c in left and c in right]
    rows = [c for c in out if c in left and c not in right]
    columns = [c for c in out if c in right and c not in left]
    summed = [c for c in left if c in right and c not in out]
    plain = len(set(left)) == len(left) and len(set(right)) == len(right) and len(summed) == len(columns) == 1
    if not plain or len(left) != len(batch) + len(rows) + 1 or len(right) != len(batch) + 2:
        raise NotInPlaybook(f"einsum '{equation}' is not in the playbook; {COVERED}")
    a = permute(a, [left.index(c) for c in (*batch, *rows, *summed)])
    b = permute(b, [right.index(c) for c in (*batch, *summed, *columns)])
    if (not batch and len(rows) > 1) or len(rows) == 1:
        value = matmul(a, b, call.node.dtype)
    else:
        raise NotInPlaybook(f"einsum '{equation}' is not in the playbook; {COVERED}")
    order = [*batch, *rows, *columns]
    return permute(value, [order.index(c) for c in out])


def _gelu(call: _Call) -> Value:
    code = GELU_TANH if call.operand(1, "approximate", "none") == "tanh" else GELU_ERF
    return compute(code, call.tensor(0), dtype=call.node.dtype)


def _with_numbers(code: str, *names_defaults: tuple[str, float]) -> Callable[[_Call], Value]:
    """A pointwise rule with number operands after the tensor: {1}, {2}, ..."""

    def rule(call: _Call) -> Value:
        x = call.floating(0)
        numbers = [_like(x, call.number(i, name, default)) for i, (name, default) in enumerate(names_defaults, 1)]
        return compute(code, x, *numbers, dtype=call.node.dtype)

    return rule


def _clamp(call: _Call) -> Value:
    value = call.tensor(0)
    for index, names, kind in ((1, ("min", "min_val"), "max_of"), (2, ("max", "max_val"), "min_of")):
        for name in names:
            if call.has(index, name):
                value = compute(
                    f"{kind}({{0}}, {{1}})", value, cast(call.tensor(index, name), value.dtype), dtype=value.dtype
                )
                break
    return value


def _pow(call: _Call) -> Value:
    base, exponent = call.tensor(0), call.operand(1, "exponent")
    simple = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrt{f}({0})", 1: "{0}", -1: "{T}(1) / {0}"}
    if isinstance(exponent, int | float) and exponent in simple:
        return compute(simple[exponent], cast(base, call.node.dtype), dtype=call.node.dtype)
    if call.node.dtype not in _FLOATS:
        raise NotInPlaybook(f"an integer power of {exponent!r} is not in the playbook; {COVERED}")
    return compute("pow{f}({0}, {1})", cast(base, call.node.dtype), call.tensor(1), dtype=call.node.dtype)


def _where(call: _Call) -> Value:
    a, b = (cast(call.tensor(i), call.node.dtype) for i in (1, 2))
    return compute("{0} ? {1} : {2}", call.tensor(0), a, b, dtype=call.node.dtype)


def _to(call: _Call) -> Value:
    return cast(call.tensor(0), call.node.dtype)


def _div(call: _Call) -> Value:
    mode = call.node.kwargs.get("rounding_mode")
    code = {"floor": "floor{f}({0} / {1})", "trunc": "trunc{f}({0} / {1})"}.get(str(mode), "{0} / {1}")
    a, b = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
    if call.node.dtype not in _FLOATS:
        raise NotInPlaybook(f"integer division is not in the playbook; {COVERED}")
    return compute(code, a, b, dtype=call.node.dtype)


def _arithmetic(rule: str) -> Callable[[_Call], Value]:
    def apply(call: _Call) -> Value:
        a, b = (cast(v, call.node.dtype) for v in (call.tensor(0), call.scaled(1)))
        return compute(BINARY[rule], a, b, dtype=call.node.dtype)

    return apply


def _transpose(call: _Call) -> Value:
    value = call.tensor(0)
    order = list(range(len(value.dims)))
    if len(order) > 1:
        a, b = call.integers(1)[0] if call.has(1) else 0, call.integers(2)[0] if call.has(2) else 1
        order[a], order[b] = order[b], order[a]
    return permute(value, order)


def _reverse(call: _Call) -> Value:
    value = call.tensor(0)
    return permute(value, list(reversed(range(len(value.dims)))))


def _reshape(call: _Call) -> Value:
    asked = call.integers(1)
    inferred = asked.index(-1) if -1 in asked and len(asked) == len(call.node.shape) else -1
    return reshape(call.tensor(0), call.node.shape, inferred)


def _squeeze(call: _Call) -> Value:
    value = call.tensor(0)
    axes = [a % len(value.dims) for a in call.integers(1, "dim")] or range(len(value.dims))
    return squeeze(value, [a for a in axes if value.sizes[a] == 1])


def _expand(call: _Call) -> Value:
    value = call.tensor(0)
    lead = len(call.node.shape) - len(value.dims)
    dims = []
    for k, size in enumerate(call.node.shape):
        own = value.dims[k - lead] if k >= lead else None
        dims.append(own if own is not None and own.size == size else Extent(str(size), size))
    return expand(value, tuple(dims))


def _dropout(call: _Call) -> Value:
    if call.flag(2, "train"):
        raise NotInPlaybook(f"dropout in training mode is not in the playbook; {COVERED}")
    return call.tensor(0)


def _broadcast_tensors(call: _Call) -> dict[str, Value]:
    """One value a result, named as "getitem" asks for them."""
    tensors = call.operand(0)
    operands = [call.values[t.node] for t in tensors if isinstance(t, Ref)] if isinstance(tensors, tuple) else []
    dims = broadcast(operands)
    return {f"{call.node.name}[{i}]": expand(value, dims) for i, value in enumerate(operands)}


def _chunk(call: _Call) -> dict[str, Value]:
    x, axis = call.tensor(0), int(call.number(2, "dim", 0))
    pieces, whole = int(call.number(1, "chunks", 1)), x.dims[axis]
    return _pieces(call, x, axis, pieces, whole)


def _split(call: _Call) -> dict[str, Value]:
    x, axis, size = call.tensor(0), int(call.number(2, "dim", 0)), call.operand(1)
    if isinstance(size, tuple):
        size = size[0] if len(set(size)) == 1 else None
    if not isinstance(size, int):
        raise NotInPlaybook(f"a split into pieces of different sizes is not in the playbook; {COVERED}")
    return _pieces(call, x, axis, max(1, x.sizes[axis] // size), x.dims[axis])


def _pieces(call: _Call, x: Value, axis: int, pieces: int, whole: Extent) -> dict[str, Value]:
    if whole.size % pieces:
        raise NotInPlaybook(f"a split into pieces of different sizes is not in the playbook; {COVERED}")
    length = Extent(f"({whole.text} // {pieces})", whole.size // pieces)
    starts = [Extent(f"{i} * {length.text}", i * length.size) for i in range(pieces)]
    return {f"{call.node.name}[{i}]": window(x, axis, start, length) for i, start in enumerate(starts)}


def _slice(call: _Call) -> Value:
    x, axis = call.tensor(0), int(call.number(1, "dim", 0))
    whole, step = x.dims[axis], call.number(4, "step", 1)
    start, end = (call.operand(i) for i in (2, 3))
    if step != 1:
        raise NotInPlaybook(f"a slice with a step is not in the playbook; {COVERED}")
    first = _position(start if isinstance(start, int) else 0, whole)
    last = _position(end if isinstance(end, int) else whole.size, whole)
    if first.size == 0 and last.size == whole.size:
        return x
    text = last.text if first.size == 0 else f"({last.text} - {first.text})"
    return window(x, axis, first, Extent(text, last.size - first.size))


def _position(index: int, whole: Extent) -> Extent:
    """A slice's bound as an expression; the half is taken to be meant as the half in every workload."""
    if index < 0:
        return Extent(f"({whole.text} - {-index})", max(0, whole.size + index))
    if index >= whole.size:
        return whole
    return Extent(f"({whole.text} // 2)" if 2 * index == whole.size else str(index), index)


def _select(call: _Call) -> Value:
    x, index = call.tensor(0), int(call.number(2, "index", 0))
    axis = int(call.number(1, "dim", 0)) % len(x.dims)
    return squeeze(window(x, axis, _position(index, x.dims[axis]), ONE), (axis,))


_SEVERAL_RESULTS: Mapping[str, Callable[[_Call], dict[str, Value]]] = {
    "aten.broadcast_tensors": _broadcast_tensors,
    "aten.chunk": _chunk,
    "aten.split": _split,
}

RULES: Mapping[str, Callable[[_Call], Value]] = {
    "add": _arithmetic("add"), "sub": _arithmetic("sub"), "mul": _arithmetic("mul"), "div": _div,
    "gelu": _gelu, "clamp": _clamp, "clamp_min": _clamp, "hardtanh": _with_numbers(
        "min_of(max_of({0}, {1}), {2})", ("min_val", -1.0), ("max_val", 1.0)),
    "leaky_relu": _with_numbers("{0} > {T}(0) ? {0} : {0} * {1}", ("negative_slope", 0.01)),
    "elu": _with_numbers("{0} > {T}(0) ? {0} * {2} : {1} * {2} * expm1{f}({0} * {3})",
                         ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": _with_numbers("{0} > {T}(0) ? {0} : {1} * expm1{f}({0} / {1})", ("alpha", 1.0)),
    "softplus": _with_numbers("{0} * {1} > {2} ? {0} : log1p{f}(exp{f}({0} * {1})) / {1}",
                              ("beta", 1.0), ("threshold", 20.0)),
    "threshold": _with_numbers("{0} > {1} ? {0} : {2}", ("threshold", 0.0), ("value", 0.0)),
    "hardshrink": _with_numbers("abs_of({0}) > {1} ? {0} : {T}(0)", ("lambd", 0.5)),
    "softshrink": _with_numbers("{0} > {1} ? {0} - {1} : {0} < -{1} ? {0} + {1} : {T}(0)", ("lambd", 0.5)),
    "pow": _pow, "where": _where, "to": _to, "_to_copy": _to, "float": _to, "half": _to, "type_as": _to,
    "softmax": lambda c: _softmax(c, False), "_softmax": lambda c: _softmax(c, False),
    "log_softmax": lambda c: _softmax(c, True), "_log_softmax": lambda c: _softmax(c, True),
    "logsumexp": _logsumexp, "layer_norm": _layer_norm, "rms_norm": _rms_norm, "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "var": lambda c: _variance(c, False), "std": lambda c: _variance(c, True), "norm": _norm,
    "linalg_vector_norm": _norm, "sum": _sum, "mean": _mean_rule, "max": _extreme("max"), "amax": _extreme("max"),
    "min": _extreme("min"), "amin": _extreme("min"), "getitem": _getitem,
    "mse_loss": _loss("({0} - {1}) * ({0} - {1})"), "l1_loss": _loss("abs_of({0} - {1})"),
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul, "linear": _linear,
    "addmm": _addmm, "baddbmm": _addmm, "einsum": _einsum,
    "t": _transpose, "transpose": _transpose, "numpy_T": _reverse, "permute": lambda c: permute(
        c.tensor(0), c.integers(1)), "view": _reshape, "reshape": _reshape, "flatten": _reshape,
    "_unsafe_view": _reshape, "unflatten": _reshape, "unsqueeze": lambda c: unsqueeze(
        c.tensor(0), c.integers(1)[0]), "squeeze": _squeeze, "expand": _expand, "expand_as": _expand,
    "dropout": _dropout, "slice": _slice, "select": _select,
}  # fmt: skip
