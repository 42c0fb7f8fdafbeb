"""Rule of attention: one value, which also holds what it is made of for a kernel that writes its scores."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, like, mul, rounded, sub
from cutegen_core.propose.playbook.rules.products import from_memory, matmul
from cutegen_core.propose.playbook.values import (
    DotProductAttention,
    Extent,
    Reshape,
    Size,
    Value,
    agree,
    broadcast,
    combined,
    compute,
    expand,
    fits,
    permute,
    plain,
    position,
    product,
    reduce,
    reshaped,
    unsqueeze,
)


def _attention(call: OperationCall) -> Value:
    q, k, v = (call.tensor(i) for i in range(3))
    if call.number(4, "dropout_p", 0.0):
        raise not_in_playbook("attention with dropout")
    result = (*q.dims[:-1], v.dims[-1])
    mask = call.tensor(3, "attn_mask") if call.has(3, "attn_mask") else None
    if call.flag(99, "enable_gqa") and not agree(q.dims[-3:-2], k.dims[-3:-2]):
        k, v = _repeated(k, q.dims[-3]), _repeated(v, q.dims[-3])
        mask = mask and _in_groups(mask, k.dims[-4:-2])
    elif mask is None and _is_gathered(k) and _is_gathered(v):
        k, v = plain(k), plain(v)
    if len(q.dims) == len(k.dims) == len(v.dims):
        heads = broadcast([Value(one.dims[:-2], one.dtype) for one in (q, k, v)])
        q, k, v = (one if agree(one.dims[:-2], heads) else expand(one, (*heads, *one.dims[-2:])) for one in (q, k, v))
        result = (*q.dims[:-1], v.dims[-1])
    same_heads = agree(k.dims[:-2], v.dims[:-2]) and agree([product(q.dims[:-2])], [product(k.dims[:-2])])
    if not (same_heads and fits(result, call.node.shape)):
        raise not_in_playbook("attention whose queries have other heads than the keys")
    q = reshaped(q, (*k.dims[:-2], *q.dims[-2:]))
    wide = "float64" if q.dtype == "float64" else "float32"
    causal, scale = call.flag(5, "is_causal"), _scale(call, q.dims[-1], wide)
    apart = _apart(call, q, k, v, mask, scale, causal)
    if mask is not None or q.dims[-2].single or wide == "float64":  # one query has rows instead of tiles
        return reshaped(apart, result)
    made = DotProductAttention((*q.dims[:-1], v.dims[-1]), call.node.dtype, q, k, v, scale, apart, causal)
    return reshaped(made, result)


def _repeated(value: Value, heads: Extent) -> Value:
    """Return keys or values with each head once for every query head of its group, in a dimension of its own."""
    own = value.dims[-3]
    times = combined(f"({heads.text} // {own.text})", operator.floordiv, heads, own)
    apart = unsqueeze(value, -3)
    return expand(apart, (*apart.dims[:-3], times, *apart.dims[-2:]))


def _in_groups(mask: Value, groups: Sequence[Extent]) -> Value:
    """Return a mask of all heads as one of groups of them."""
    if len(mask.dims) < 3:
        return mask
    if mask.dims[-3].single:
        return unsqueeze(mask, -3)
    return reshaped(mask, (*mask.dims[:-3], *groups, *mask.dims[-2:]))


def _is_gathered(value: Value) -> bool:
    """Return whether only the heads and batches are put together: then they can stay apart, repeated ones too."""
    return isinstance(value, Reshape) and agree(plain(value).dims[-2:], value.dims[-2:])


def _scale(call: OperationCall, depth: Extent, dtype: str) -> Value:
    given = call.operand(6, "scale")
    if isinstance(given, int | float):
        return like(Value((), dtype), given)
    return Size((), dtype, f"({depth.text}) ** -0.5")


def _apart(call: OperationCall, q: Value, k: Value, v: Value, mask: Value | None, scale: Value, causal: bool) -> Value:
    """Return the formula in float arithmetic, as a flash kernel computes it; of doubles in theirs."""
    wide = scale.dtype
    last = len(k.dims) - 1
    keys = permute(cast(k, wide), (*range(last - 1), last, last - 1))
    scores = rounded(mul(matmul(cast(q, wide), keys, wide), scale))
    scores = from_memory(scores) if q.dims[-2].single else scores
    if causal:
        seen = compute("{1} <= {0}", position(scores.dims, -2), position(scores.dims, -1), dtype="bool")
        scores = compute("{0} ? {1} : {T}(-INFINITY)", seen, scores, dtype=wide)
    if mask is not None:
        scores = _masked(scores, mask)
    # A query all of whose scores are -inf sees no key: its weights are 0, not the 0 / 0 of a softmax.
    largest = compute("{0} == {T}(-INFINITY) ? {T}(0) : {0}", reduce("max", scores, (-1,), True), dtype=wide)
    weights: Value = apply("exp", sub(scores, largest))
    total = reduce("sum", weights, (-1,), True)
    weights = compute("{1} == {T}(0) ? {0} : {0} / {1}", weights, total, dtype=wide)
    return cast(matmul(weights, cast(v, wide), wide), call.node.dtype)


def _masked(scores: Value, mask: Value) -> Value:
    if mask.dtype == "bool":
        return compute("{0} ? {1} : {T}(-INFINITY)", mask, scores, dtype=scores.dtype)
    return add(scores, cast(mask, scores.dtype))


RULES: Mapping[str, Rule] = {"scaled_dot_product_attention": _attention}
