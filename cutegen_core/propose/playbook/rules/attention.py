"""Rule of attention: one value, which also holds what it is made of for a kernel that writes its scores."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, like, mul, sub
from cutegen_core.propose.playbook.rules.products import matmul
from cutegen_core.propose.playbook.values import (
    DotProductAttention,
    Extent,
    Size,
    Value,
    agree,
    compute,
    permute,
    position,
    reduce,
)


def _attention(call: OperationCall) -> Value:
    q, k, v = (call.tensor(i) for i in range(3))
    if call.number(4, "dropout_p", 0.0):
        raise not_in_playbook("attention with dropout")
    if call.flag(99, "enable_gqa") or not (agree(q.dims[:-2], k.dims[:-2]) and agree(k.dims[:-2], v.dims[:-2])):
        raise not_in_playbook("attention whose queries have other heads than the keys")
    causal, scale = call.flag(5, "is_causal"), _scale(call, q.dims[-1])
    plain = _plain(call, q, k, v, scale, causal)
    if call.has(3, "attn_mask"):
        return plain
    dims = (*q.dims[:-1], v.dims[-1])
    return DotProductAttention(dims, call.node.dtype, q, k, v, scale, plain, causal)


def _scale(call: OperationCall, depth: Extent) -> Value:
    given = call.operand(6, "scale")
    if isinstance(given, int | float):
        return like(Value((), "float32"), given)
    return Size((), "float32", f"({depth.text}) ** -0.5")


def _plain(call: OperationCall, q: Value, k: Value, v: Value, scale: Value, causal: bool) -> Value:
    """Return the formula in float arithmetic, as a flash kernel computes it."""
    last = len(k.dims) - 1
    keys = permute(cast(k, "float32"), (*range(last - 1), last, last - 1))
    scores: Value = mul(matmul(cast(q, "float32"), keys, "float32"), scale)
    if causal:
        seen = compute("{1} <= {0}", position(scores.dims, -2), position(scores.dims, -1), dtype="bool")
        scores = compute("{0} ? {1} : {T}(-INFINITY)", seen, scores, dtype="float32")
    if call.has(3, "attn_mask"):
        scores = _masked(scores, call.tensor(3, "attn_mask"))
    # A query all of whose scores are -inf sees no key: its weights are 0, not the 0 / 0 of a softmax.
    largest = compute("{0} == {T}(-INFINITY) ? {T}(0) : {0}", reduce("max", scores, (-1,), True), dtype="float32")
    weights: Value = apply("exp", sub(scores, largest))
    total = reduce("sum", weights, (-1,), True)
    weights = compute("{1} == {T}(0) ? {0} : {0} / {1}", weights, total, dtype="float32")
    return cast(matmul(weights, cast(v, "float32"), "float32"), call.node.dtype)


def _masked(scores: Value, mask: Value) -> Value:
    if mask.dtype == "bool":
        return compute("{0} ? {1} : {T}(-INFINITY)", mask, scores, dtype="float32")
    return add(scores, cast(mask, "float32"))


RULES: Mapping[str, Rule] = {"scaled_dot_product_attention": _attention}
