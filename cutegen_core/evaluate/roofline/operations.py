"""Names of ATen operations by how data flows through them, and readers for single operands.

What is in no table is unknown: it counts one operation an element, and nothing is said about which of its operands'
elements it needs.
"""

from __future__ import annotations

from cutegen_core.records.graph import Graph, Node, Operand, Ref


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_CHEAP = """
    add sub rsub mul neg abs sign maximum minimum max_other where clamp clamp_min clamp_max relu relu6 hardtanh
    leaky_relu hardswish hardsigmoid threshold square fmod remainder floor ceil round trunc eq ne lt le gt ge
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not isnan isinf masked_fill lerp
    addcmul dropout feature_dropout alpha_dropout prelu rrelu heaviside frac clip hardshrink softshrink
"""
_DIVIDING = "div true_divide reciprocal sqrt rsqrt softsign addcdiv floor_divide"
_EXPONENTIAL = "exp exp2 expm1 log log2 log10 log1p sin cos sigmoid silu elu celu selu logaddexp pow"
_DEAR = "tanh erf erfc gelu softplus mish log_sigmoid tan asin acos atan atan2 sinh cosh lgamma digamma tanhshrink"
POINTWISE: dict[str, int] = {
    **dict.fromkeys(_CHEAP.split(), 1),
    **dict.fromkeys(_DIVIDING.split(), 4),
    **dict.fromkeys(_EXPONENTIAL.split(), 8),
    **dict.fromkeys(_DEAR.split(), 16),
}
"""fp32 operations an element, roughly those of CUDA's accurate functions (CUDA C++ Programming Guide, "Mathematical
Functions"): one for what a single instruction does, more for division, roots and transcendental functions."""

COPIES = words("contiguous clone to _to_copy type_as detach alias lift_fresh_copy float half bfloat16 double")
"""Same elements in the same places, perhaps in another dtype."""

RESHAPES = words("view reshape flatten unflatten _unsafe_view ravel view_as reshape_as")
PERMUTES = words("t transpose permute numpy_T mT movedim adjoint swapaxes matrix_H")
CONSTANTS = words(
    "constant zeros ones full arange eye empty linspace zeros_like ones_like full_like empty_like scalar_tensor "
    "tril_indices triu_indices new_zeros new_ones new_full rand_like randn_like one_hot"
)
ROWS = words(
    "softmax log_softmax _softmax _log_softmax softmin layer_norm native_layer_norm rms_norm group_norm "
    "native_group_norm batch_norm instance_norm cumsum cumprod cummax cummin logcumsumexp sort argsort normalize "
    "cosine_similarity renorm local_response_norm flip roll"
)
"""The shape stays, and elements of a row depend on one another."""

REDUCTIONS = words(
    "sum mean amax amin max min prod var std var_mean std_mean norm linalg_vector_norm logsumexp argmax argmin "
    "median topk aminmax nansum count_nonzero mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div cosine_embedding_loss hinge_embedding_loss triplet_margin_loss "
    "cross_entropy_loss poisson_nll_loss soft_margin_loss margin_ranking_loss trace"
)
"""Fewer results than elements, and each result needs its whole row. `all` and `any` may stop early, `nll_loss` looks at
one element a row: they are none of these."""

LINEAR_REDUCTIONS = words("sum mean trace avg_pool1d avg_pool2d avg_pool3d cumsum")
LINEAR = words("add sub rsub neg mul div dropout where masked_fill tril triu cat stack diag diagonal")
"""With `COPIES`, views and `LINEAR_REDUCTIONS`: a product before one of these can be rearranged with one behind it."""

GATHERS: dict[str, tuple[int, int]] = {
    "embedding": (0, 1), "index_select": (0, 2), "gather": (0, 2), "take": (0, 1), "take_along_dim": (0, 1),
}  # fmt: skip
"""Operation -> places of the table and of the indices among its arguments."""

_ROW_COSTS = {
    **dict.fromkeys(words("softmax log_softmax _softmax _log_softmax softmin logsumexp cross_entropy_loss"), 12),
    **dict.fromkeys(words("layer_norm native_layer_norm group_norm native_group_norm batch_norm instance_norm"), 8),
    **dict.fromkeys(words("rms_norm var std var_mean std_mean cosine_similarity normalize"), 4),
    **dict.fromkeys(words("norm linalg_vector_norm mse_loss l1_loss smooth_l1_loss huber_loss"), 2),
    **dict.fromkeys(words("flip roll"), 0),
}


def name(node: Node) -> str:
    """The operation without namespace and in-place underscore: "relu" for "aten.relu" and "aten.relu_"."""
    plain = node.op.removeprefix("aten.").split(".")[0]
    return plain.rstrip("_") if not plain.startswith("_") else plain


def pointwise_cost(node: Node) -> int:
    """fp32 operations an element of a member of POINTWISE."""
    operation = name(node)
    if operation == "pow" and argument(node, 1) in (2, 2.0):
        return POINTWISE["square"]
    return POINTWISE[operation]


SELECTIONS = ("where", "masked_fill", "masked_fill_other")
"""Pointwise, but which operand is looked at depends on values."""


def row_cost(operation: str) -> int:
    """fp32 operations an element of the operand, for a member of ROWS or REDUCTIONS."""
    return _ROW_COSTS.get(operation, 1)


def tensor(node: Node, position: int) -> str:
    """Name of the tensor at a position among the arguments, "" when there is none."""
    operand = node.args[position] if position < len(node.args) else None
    return operand.node if isinstance(operand, Ref) else ""


def number(node: Node, position: int, keyword: str, default: int) -> int:
    """A whole-number argument by position or keyword."""
    value = node.args[position] if position < len(node.args) else node.kwargs.get(keyword, default)
    return int(value) if isinstance(value, int | float) else default


def numbers(operand: Operand, rank: int, default: int) -> tuple[int, ...]:
    """One number a spatial dimension, from a number, a tuple or nothing."""
    if isinstance(operand, tuple) and operand:
        values = tuple(int(v) for v in operand if isinstance(v, int | float))
        return values * rank if len(values) == 1 else values
    return (int(operand),) * rank if isinstance(operand, int) else (default,) * rank


def argument(node: Node, position: int, keyword: str = "") -> Operand:
    """The operand at a position or under a keyword, None when it was left out."""
    return node.args[position] if position < len(node.args) else node.kwargs.get(keyword)


def by_name(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes}
