"""Rules of the losses: a formula for each element or each row, then a mean or a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, div, like, mul, rounded, sub
from cutegen_core.propose.playbook.rules.reductions import mean_of, norm_of
from cutegen_core.propose.playbook.rules.taken import followed
from cutegen_core.propose.playbook.values import (
    Size,
    Value,
    agree,
    broadcast,
    compute,
    expand,
    position,
    reduce,
    squeeze,
    unsqueeze,
)

# {0}: what was predicted, {1}: what it should be, {2} and {3}: numbers or further operands.
_SMOOTH_L1 = "abs_of({0} - {1}) < {2} ? {T}(0.5) * ({0} - {1}) * ({0} - {1}) / {2} : abs_of({0} - {1}) - {T}(0.5) * {2}"
_HUBER = "abs_of({0} - {1}) <= {2} ? {T}(0.5) * ({0} - {1}) * ({0} - {1}) : {2} * (abs_of({0} - {1}) - {T}(0.5) * {2})"
_DIVERGENCE = "{1} * log{f}({1} == {T}(0) ? {T}(1) : {1}) - {1} * {0}"  # a logarithm of its own would be a branch
_DIVERGENCE_OF_LOGARITHMS = "exp{f}({1}) * ({1} - {0})"
_HINGE = "({1} == {T}(1) ? {T}(0) : max_of({2} - {0}, {T}(0))) + ({1} == {T}(-1) ? {T}(0) : {0})"
_SOFT_MARGIN = "log1p{f}(exp{f}(-{1} * {0}))"
_ENTROPY = "({1} - {T}(1)) * max_of(log1p{f}(-{0}), {T}(-100)) - {1} * max_of(log{f}({0}), {T}(-100))"
_ENTROPY_OF_LOGITS = "({T}(1) - {1}) * {0} + log1p{f}(exp{f}(-abs_of({0}))) + max_of(-{0}, {T}(0))"
_POISSON_OF_LOGARITHMS = "exp{f}({0}) - {1} * {0}"
_POISSON = "{0} - {1} * log{f}({0} + {2})"
_STIRLING = "{0} > {T}(1) ? {0} * log{f}({0}) - {0} + {T}(0.5) * log{f}({T}(6.28318530717958648) * {0}) : {T}(0)"
_WEIGHED_ENTROPY = (
    "({T}(1) - {1}) * {0} + (({2} - {T}(1)) * {1} + {T}(1)) * (log1p{f}(exp{f}(-abs_of({0}))) + max_of(-{0}, {T}(0)))"
)


def reduced(each: Value, reduction: object) -> Value:
    """Return the loss of each element, or their mean or sum; PyTorch counts none, mean, sum from 0."""
    if reduction in (0, "none"):
        return each
    return mean_of(each, (), False) if reduction in (1, "mean") else reduce("sum", each, (), False)


def _each(code: str, **numbers: float) -> Rule:
    """Return the rule of a loss of two tensors; its arguments are they, the reduction, and these numbers."""

    def rule(call: OperationCall) -> Value:
        a, b = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
        more = (like(a, call.number(3 + i, name, default)) for i, (name, default) in enumerate(numbers.items()))
        return reduced(compute(code, a, b, *more, dtype=call.node.dtype), call.operand(2, "reduction", 1))

    return rule


def _divergence(call: OperationCall) -> Value:
    code = _DIVERGENCE_OF_LOGARITHMS if call.flag(99, "log_target") else _DIVERGENCE
    return _each(code)(call)


def _hinge(call: OperationCall) -> Value:
    x, target = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
    each = compute(_HINGE, x, target, like(x, call.number(2, "margin", 1.0)), dtype=x.dtype)
    return reduced(each, call.operand(3, "reduction", 1))


def _ranking(call: OperationCall) -> Value:
    a, b, target = (cast(call.tensor(i), call.node.dtype) for i in (0, 1, 2))
    margin = like(a, call.number(3, "margin", 0.0))
    each = compute("max_of({1} - {0}, {T}(0))", mul(target, sub(a, b)), margin, dtype=a.dtype)
    return reduced(each, call.operand(4, "reduction", 1))


def _entropy(call: OperationCall) -> Value:
    x, target = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
    return _weighed(call, compute(_ENTROPY, x, target, dtype=x.dtype), 3)


def _entropy_of_logits(call: OperationCall) -> Value:
    x, target = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
    if not call.has(3, "pos_weight"):
        return _weighed(call, compute(_ENTROPY_OF_LOGITS, x, target, dtype=x.dtype), 4)
    return _weighed(call, compute(_WEIGHED_ENTROPY, x, target, call.tensor(3, "pos_weight"), dtype=x.dtype), 4)


def _weighed(call: OperationCall, each: Value, reduction: int) -> Value:
    """Return the losses times their weights, reduced as the operand at `reduction` says."""
    if call.has(2, "weight"):
        each = mul(each, call.tensor(2, "weight"))
    return reduced(each, call.operand(reduction, "reduction", 1))


def distance(a: Value, b: Value, power: float, eps: float) -> Value:
    """Return the norm of the differences along the last dimension, each larger by eps, as PyTorch has it."""
    return norm_of(add(sub(a, b), like(a, eps)), power, (-1,), False)


def _pairwise(call: OperationCall) -> Value:
    found = distance(call.tensor(0), call.tensor(1), call.number(2, "p", 2.0), call.number(3, "eps", 1e-6))
    return unsqueeze(found, -1) if call.flag(4, "keepdim") else found


def _triplet(call: OperationCall) -> Value:
    anchor, positive, negative = (call.tensor(i) for i in range(3))
    margin, power, eps = call.number(3, "margin", 1.0), call.number(4, "p", 2.0), call.number(5, "eps", 1e-6)
    near, far = distance(anchor, positive, power, eps), distance(anchor, negative, power, eps)
    if call.flag(6, "swap"):
        far = compute("min_of({0}, {1})", far, distance(positive, negative, power, eps), dtype=far.dtype)
    each = compute("max_of({2} + {0} - {1}, {T}(0))", near, far, like(near, margin), dtype=near.dtype)
    return reduced(each, call.operand(7, "reduction", 1))


def _drawn_together(a: Value, b: Value) -> tuple[Value, Value]:
    """Return both in their common extents: a dimension is one of these, and what is repeated counts as often."""
    dims = broadcast([a, b])
    a, b = (one if agree(one.dims, dims) else expand(one, dims) for one in (a, b))
    return a, b


def _cosine(call: OperationCall) -> Value:
    a, b = _drawn_together(call.floating(0), call.floating(1))
    axes, least = call.integers(2, "dim") or (1,), like(a, call.number(3, "eps", 1e-8))
    norms = (apply("sqrt", reduce("sum", apply("square", x), axes, False)) for x in (a, b))
    longer = [compute("max_of({0}, {1})", norm, least, dtype=a.dtype) for norm in norms]
    return div(reduce("sum", mul(a, b), axes, False), mul(*longer))


def _cosine_embedding(call: OperationCall) -> Value:
    (a, b), target = _drawn_together(call.tensor(0), call.tensor(1)), call.tensor(2)
    squares = [add(reduce("sum", apply("square", x), (-1,), False), like(x, 1e-12)) for x in (a, b)]
    cosine = div(reduce("sum", mul(a, b), (-1,), False), apply("sqrt", mul(*squares)))
    code = "{1} == {T}(1) ? {T}(1) - {0} : {1} == {T}(-1) ? max_of({0} - {2}, {T}(0)) : {T}(0)"
    margin = like(cosine, call.number(3, "margin", 0.0))
    each = compute(code, cosine, cast(target, cosine.dtype), margin, dtype=cosine.dtype)
    return reduced(each, call.operand(4, "reduction", 1))


def _cross_entropy(call: OperationCall) -> Value:
    x, target = rounded(call.tensor(0)), call.tensor(1)
    axis = 1 if len(x.dims) > 1 else 0
    largest = reduce("max", x, (axis,), True)
    shifted = sub(x, largest)
    total = apply("log", reduce("sum", apply("exp", shifted), (axis,), True))
    smoothing = call.number(5, "label_smoothing", 0.0)
    if target.dtype in FLOATS:
        if call.number(4, "ignore_index", -100) >= 0:
            raise not_in_playbook("a class that is ignored, among probabilities")
        return _of_probabilities(call, sub(total, shifted), axis, smoothing)
    return _likelihood(call, x, lambda one: sub(total, sub(one, largest)), axis, smoothing)


def _nll(call: OperationCall) -> Value:
    x = call.tensor(0)
    return _likelihood(call, x, partial(apply, "neg"), 1 if len(x.dims) > 1 else 0, 0.0)


def _of_probabilities(call: OperationCall, lost: Value, axis: int, smoothing: float) -> Value:
    """Return the sum over the classes of what each loses, by its probability; its mean is one over everything else."""
    probability = cast(call.tensor(1), lost.dtype)
    if smoothing:
        spread = div(like(lost, smoothing), Size((), lost.dtype, lost.dims[axis].text))
        probability = add(mul(probability, like(lost, 1 - smoothing)), spread)
    each = mul(probability, lost)
    if call.has(2, "weight"):
        each = mul(each, _of_classes(call.tensor(2, "weight"), lost, axis))
    return reduced(reduce("sum", each, (axis,), False), call.operand(3, "reduction", 1))


def _likelihood(call: OperationCall, x: Value, lost: Callable[[Value], Value], axis: int, smoothing: float) -> Value:
    """Return what is lost at the target's class, which one thread of a row finds at its own position.

    It finds what is lost there from x, so that the walk that needs nothing of the other classes finds it.

    Args:
        lost: the negative logarithm of a class's probability, of its x.
    """
    target, dtype, classes = call.tensor(1), x.dtype, position(x.dims, axis)
    hit = compute("{0} == {1}", classes, cast(unsqueeze(target, axis), "int64"), dtype="bool")

    def at_target(value: Value) -> Value:
        return reduce("sum", compute("{0} ? {1} : {T}(0)", hit, value, dtype=dtype), (axis,), True)

    each = squeeze(lost(at_target(x)), (axis,))
    ignored = like(classes, call.number(4, "ignore_index", -100))
    counts: Value = compute("{0} == {1} ? {T}(0) : {T}(1)", cast(target, "int64"), ignored, dtype=dtype)
    every = lost(x) if smoothing else None
    if call.has(2, "weight"):
        weight = _of_classes(call.tensor(2, "weight"), x, axis)
        weights = squeeze(at_target(weight), (axis,))
        each, counts = mul(each, weights), mul(counts, weights)
        every = every and mul(every, weight)
    if every is not None:
        spread = div(reduce("sum", every, (axis,), False), Size((), dtype, x.dims[axis].text))
        each = add(mul(each, like(each, 1 - smoothing)), mul(spread, like(each, smoothing)))
    each = compute("{1} == {T}(0) ? {T}(0) : {0}", each, counts, dtype=dtype)
    if call.operand(3, "reduction", 1) in (1, "mean"):
        return div(reduce("sum", each, (), False), reduce("sum", counts, (), False))
    return reduced(each, call.operand(3, "reduction", 1))


def _of_classes(weight: Value, x: Value, axis: int) -> Value:
    """Return one weight for each class, of which `x` has one at each position along a dimension."""
    return followed(weight, len(x.dims) - axis - 1)


def _poisson(call: OperationCall) -> Value:
    x, target = (cast(call.tensor(i), call.node.dtype) for i in (0, 1))
    code = _POISSON_OF_LOGARITHMS if call.flag(2, "log_input", True) else _POISSON
    each: Value = compute(code, x, target, like(x, call.number(4, "eps", 1e-8)), dtype=x.dtype)
    if call.flag(3, "full"):
        each = add(each, compute(_STIRLING, target, dtype=x.dtype))
    return reduced(each, call.operand(5, "reduction", 1))


def _multi_margin(call: OperationCall) -> Value:
    """Return how far the other classes come within the margin of the target's, in the mean over all classes."""
    x, target = call.tensor(0), call.tensor(1)
    hit = compute("{0} == {1}", position(x.dims, -1), cast(unsqueeze(target, -1), "int64"), dtype="bool")
    own = reduce("sum", compute("{0} ? {1} : {T}(0)", hit, x, dtype=x.dtype), (-1,), True)
    margin, power = like(x, call.number(3, "margin", 1.0)), call.number(2, "p", 1)
    near = add(sub(margin, own), x)
    over: Value = compute("!{0} && {1} > {T}(0) ? {1} : {T}(0)", hit, near, dtype=x.dtype)
    over = apply("square", over) if power == 2 else over
    if call.has(4, "weight"):
        weight = compute("{0} ? {1} : {T}(0)", hit, call.tensor(4, "weight"), dtype=x.dtype)
        over = mul(over, reduce("sum", weight, (-1,), True))
    return reduced(mean_of(over, (-1,), False), call.operand(5, "reduction", 1))


RULES: Mapping[str, Rule] = {
    "mse_loss": _each("({0} - {1}) * ({0} - {1})"), "l1_loss": _each("abs_of({0} - {1})"),
    "smooth_l1_loss": _each(_SMOOTH_L1, beta=1.0), "huber_loss": _each(_HUBER, delta=1.0),
    "kl_div": _divergence, "soft_margin_loss": _each(_SOFT_MARGIN),
    "hinge_embedding_loss": _hinge, "margin_ranking_loss": _ranking,
    "binary_cross_entropy": _entropy, "binary_cross_entropy_with_logits": _entropy_of_logits,
    "triplet_margin_loss": _triplet, "pairwise_distance": _pairwise,
    "cosine_similarity": _cosine, "cosine_embedding_loss": _cosine_embedding,
    "poisson_nll_loss": _poisson, "multi_margin_loss": _multi_margin,
    "cross_entropy_loss": _cross_entropy, "nll_loss": _nll, "nll_loss_nd": _nll,
}  # fmt: skip
