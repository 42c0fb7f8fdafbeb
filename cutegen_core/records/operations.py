"""What the workbench knows of ATen's operations: how data flows through each, what it costs, what it may spare.

One table for everyone who classifies operations: the bounds, the library calls, the families of problems, the notes for
prompts, the lint and the playbook. An operation in no line of it has the flow UNKNOWN, which is nobody's default:
bounds demand nothing of it, no family but "other" claims it, and the lint reports it by name (`unknown`).

A graph has operations as they were called: under another spelling ("multiply"), in place ("relu_"), or as the pairwise
one of two overloads (`torch.max(a, b)`). `name` settles the spelling, `traits` the use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cutegen_core.records.graph import Graph, Node, Ref


class Flow(StrEnum):
    """Which elements of its operands one element of a result needs."""

    INPUT = "input"
    """None: it is given."""
    CREATION = "creation"
    """None: constants and what is made of sizes alone."""
    POINTWISE = "pointwise"
    """The elements at its own place, under broadcasting."""
    CHANNELWISE = "channelwise"
    """The element at its own place and what its channel has."""
    COPY = "copy"
    """The same element, perhaps in another dtype."""
    RESHAPE = "reshape"
    PERMUTE = "permute"
    EXPAND = "expand"
    PART = "part"
    """Views: the same element, in other extents, transposed, repeated, or a part of them."""
    SPLIT = "split"
    """Several views at once; ITEM takes one of them, or one of several results of anything else."""
    ITEM = "item"
    DIAGONAL = "diagonal"
    """A matrix's diagonal, or a matrix that has nothing else."""
    TRIANGLE = "triangle"
    JOIN = "join"
    MOVE = "move"
    """One or a few elements at another place: flipped, padded, repeated, enlarged."""
    EXPANSION = "expansion"
    """One element of each operand, each with each."""
    REDUCTION = "reduction"
    LOSS = "loss"
    """A pointwise formula, then a sum or mean unless `reduction` is "none"."""
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    SCAN = "scan"
    SORT = "sort"
    """A whole row, or its beginning."""
    PRODUCT = "product"
    """A row of the left operand and a column of the right one."""
    CONTRACTION = "contraction"
    """A product over dimensions that its arguments name."""
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    TRANSPOSED_CONVOLUTION = "transposed convolution"
    POOLING = "pooling"
    GATHER = "gather"
    """Elements whose places are values."""
    SCATTER = "scatter"
    """Its own element, and those of a source whose places are values."""
    SEGMENT = "segment"
    """Rows that belong together by offsets, lengths or indices."""
    COMPOSITE = "composite"
    """Several products inside; nobody says which of them algebra avoids."""
    UNKNOWN = "unknown"


VIEWS = frozenset((Flow.RESHAPE, Flow.PERMUTE, Flow.EXPAND, Flow.PART, Flow.SPLIT, Flow.ITEM))
ROWS = frozenset((Flow.REDUCTION, Flow.LOSS, Flow.NORMALISATION, Flow.SOFTMAX, Flow.SCAN, Flow.SORT))
"""What reads whole rows of its first operand."""
PRODUCTS = frozenset((
    Flow.PRODUCT, Flow.CONTRACTION, Flow.ATTENTION, Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION, Flow.COMPOSITE,
))  # fmt: skip
"""What adds up products."""
_MADE_AT_RANDOM = "rand rand_like randn randn_like randint randint_like randperm"
RANDOM = frozenset(
    f"{_MADE_AT_RANDOM} normal uniform random bernoulli exponential geometric log_normal cauchy multinomial poisson "
    "binomial".split()
)
"""What draws random numbers."""
PLACES = frozenset((Flow.GATHER, Flow.SCATTER, Flow.SEGMENT))
"""What reads or writes at places that are values."""


@dataclass(frozen=True)
class Traits:
    """One operation, as far as somebody asks.

    Attributes:
        cost: fp32 operations an element: of the first operand for `ROWS` and POOLING, of the source for SCATTER and
            SEGMENT, of the result otherwise. Roughly those of CUDA's accurate functions (CUDA C++ Programming Guide,
            "Mathematical Functions"): one for what a single instruction does, more for division, roots and
            transcendental functions. Multiplications of products are counted elsewhere.
        free: eager launches no kernel for it.
        linear: in its operands (masks, indices and factors taken as given): a product before it can be rearranged.
        keeps_zeros: zeros of its first operand may stay zeros, with the arguments it usually has.
        some: which elements of its operands it looks at depends on values.
        sparse: nearly all of its result is zero, whatever the values are.
        at: position of the operand that counts: the left one of a product, the source of a copy or scatter.
        spatial: dimensions that a window slides over; 0 where the operands tell.
        library: "torch" or "F", where eager is one call of a vendor's library.
        idempotent: twice is once, with the same arguments.
        undoes: the operation whose inverse it is.
        lone: of one element, that element.
        stepwise: each weight is used once for each step of each sequence.
    """

    flow: Flow
    cost: int = 0
    free: bool = False
    linear: bool = False
    keeps_zeros: bool = False
    some: bool = False
    sparse: bool = False
    at: int = 0
    spatial: int = 0
    library: str = ""
    idempotent: bool = False
    undoes: str = ""
    lone: bool = False
    stepwise: bool = False


_BY_TRAITS: tuple[tuple[Traits, str], ...] = (
    (Traits(Flow.INPUT, free=True), "input"),
    (Traits(Flow.CREATION, free=True), "constant _enter_autocast _exit_autocast"),
    (
        Traits(Flow.CREATION),
        "ones ones_like new_ones full full_like new_full fill empty empty_like new_empty arange linspace logspace eye "
        f"scalar_tensor tril_indices triu_indices {_MADE_AT_RANDOM}",
    ),
    (Traits(Flow.CREATION, sparse=True), "zeros zeros_like new_zeros zero"),
    # -- pointwise -----------------------------------------------------------------------------------------------------
    (Traits(Flow.POINTWISE, 1, linear=True), "add sub rsub lerp addcmul"),
    (Traits(Flow.POINTWISE, 1, linear=True, some=True), "where masked_fill"),
    (Traits(Flow.POINTWISE, 1, linear=True, keeps_zeros=True), "mul deg2rad rad2deg"),
    (Traits(Flow.POINTWISE, 1, linear=True, keeps_zeros=True, undoes="neg"), "neg"),
    (Traits(Flow.POINTWISE, 1, keeps_zeros=True, undoes="sqrt"), "square"),
    (
        Traits(Flow.POINTWISE, 1, keeps_zeros=True, idempotent=True),
        "abs sign sgn relu relu6 clamp clamp_min clamp_max hardtanh floor ceil round trunc nan_to_num",
    ),
    (
        Traits(Flow.POINTWISE, 1, keeps_zeros=True),
        "leaky_relu rrelu hardswish threshold fmod remainder frac hardshrink softshrink",
    ),
    (
        Traits(Flow.POINTWISE, 1),
        "maximum minimum fmax fmin hardsigmoid heaviside copysign eq ne lt le gt ge isclose isnan isinf isfinite "
        "isneginf isposinf signbit logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor "
        "bitwise_not bitwise_left_shift bitwise_right_shift",
    ),
    (Traits(Flow.POINTWISE, 4, linear=True, keeps_zeros=True), "div"),
    (Traits(Flow.POINTWISE, 4, linear=True), "addcdiv"),
    (Traits(Flow.POINTWISE, 4, keeps_zeros=True), "sqrt floor_divide"),
    (Traits(Flow.POINTWISE, 4), "reciprocal rsqrt hypot ldexp fake_quantize_per_tensor_affine"),
    (Traits(Flow.POINTWISE, 8, undoes="log"), "exp"),
    (Traits(Flow.POINTWISE, 8, undoes="exp"), "log"),
    (
        Traits(Flow.POINTWISE, 8, keeps_zeros=True),
        "expm1 log1p sin silu elu celu selu pow float_power xlogy special_entr",
    ),
    (Traits(Flow.POINTWISE, 8), "exp2 log2 log10 cos sinc sigmoid logit logaddexp logaddexp2 special_xlog1py"),
    (
        Traits(Flow.POINTWISE, 16, keeps_zeros=True),
        "tanh erf erfinv gelu mish tan asin asinh atan atan2 atanh sinh",
    ),
    (Traits(Flow.POINTWISE, 16), "erfc softplus log_sigmoid acos acosh cosh lgamma digamma i0"),
    (
        Traits(Flow.POINTWISE, 1, linear=True, keeps_zeros=True),
        "dropout feature_dropout alpha_dropout feature_alpha_dropout",
    ),
    (Traits(Flow.CHANNELWISE, 1, keeps_zeros=True), "prelu"),
    # -- the same elements ---------------------------------------------------------------------------------------------
    (Traits(Flow.COPY, linear=True, keeps_zeros=True), "contiguous clone to _to_copy type_as"),
    (Traits(Flow.COPY, linear=True, keeps_zeros=True, at=1), "copy"),
    (
        Traits(Flow.COPY, free=True, linear=True, keeps_zeros=True),
        "alias detach lift_fresh lift_fresh_copy positive resolve_conj resolve_neg",
    ),
    (
        Traits(Flow.RESHAPE, free=True, linear=True),
        "view view_as reshape reshape_as flatten unflatten ravel _unsafe_view unsqueeze squeeze atleast_1d atleast_2d "
        "atleast_3d",
    ),
    (Traits(Flow.PERMUTE, free=True, linear=True, undoes="t"), "t"),
    (Traits(Flow.PERMUTE, free=True, linear=True), "transpose permute movedim numpy_T mT mH matrix_H adjoint"),
    (Traits(Flow.EXPAND, free=True, linear=True), "expand expand_as"),
    (Traits(Flow.PART, free=True, linear=True), "slice select narrow unfold"),
    (
        Traits(Flow.SPLIT, free=True, linear=True),
        "chunk split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split unsafe_split_with_sizes "
        "broadcast_tensors meshgrid hsplit vsplit dsplit",
    ),
    (Traits(Flow.ITEM, free=True, linear=True), "getitem"),
    (Traits(Flow.DIAGONAL, free=True, linear=True), "diagonal linalg_diagonal"),
    (Traits(Flow.DIAGONAL, linear=True), "diag diag_embed trace"),
    (Traits(Flow.TRIANGLE, linear=True), "triu tril"),
    (Traits(Flow.JOIN, linear=True), "cat stack hstack vstack dstack column_stack block_diag cartesian_prod"),
    (
        Traits(Flow.MOVE, linear=True),
        "flip fliplr flipud roll rot90 repeat tile repeat_interleave pad constant_pad_nd pixel_shuffle pixel_unshuffle "
        "channel_shuffle",
    ),
    (
        Traits(Flow.MOVE, linear=True, some=True),
        "im2col col2im upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
        "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d "
        "upsample_trilinear3d",
    ),
    (Traits(Flow.MOVE, 1, linear=True), "diff"),
    (Traits(Flow.MOVE, sparse=True), "one_hot"),
    (Traits(Flow.MOVE, 9), "glu"),
    (Traits(Flow.MOVE, linear=True), "select_scatter slice_scatter"),
    (Traits(Flow.MOVE, 3, linear=True), "cross linalg_cross"),
    (Traits(Flow.EXPANSION, 1, linear=True), "outer kron addr"),
    (Traits(Flow.EXPANSION, 4, linear=True), "affine_grid_generator"),
    (Traits(Flow.EXPANSION, 1), "bucketize searchsorted isin"),
    # -- rows ----------------------------------------------------------------------------------------------------------
    (Traits(Flow.REDUCTION, 1, linear=True, lone=True), "sum mean sum_to_size"),
    (Traits(Flow.REDUCTION, 1, lone=True), "amax amin max min prod nansum nanmean"),
    (
        Traits(Flow.REDUCTION, 1),
        "aminmax argmax argmin count_nonzero cosine_embedding_loss triplet_margin_loss multi_margin_loss",
    ),
    (Traits(Flow.REDUCTION, 2), "norm linalg_norm linalg_vector_norm linalg_matrix_norm dist pairwise_distance"),
    (Traits(Flow.REDUCTION, 2, linear=True), "trapezoid"),
    (Traits(Flow.REDUCTION, 4), "var std var_mean std_mean cosine_similarity"),
    (Traits(Flow.REDUCTION, 12, lone=True), "logsumexp"),
    (Traits(Flow.REDUCTION, 12), "cross_entropy_loss"),
    (Traits(Flow.REDUCTION, some=True), "all any nll_loss nll_loss_nd nll_loss2d"),
    (Traits(Flow.LOSS, 2), "mse_loss l1_loss smooth_l1_loss huber_loss"),
    (
        Traits(Flow.LOSS, 1),
        "binary_cross_entropy binary_cross_entropy_with_logits kl_div hinge_embedding_loss margin_ranking_loss "
        "poisson_nll_loss soft_margin_loss",
    ),
    (Traits(Flow.NORMALISATION, 8, library="F"), "layer_norm group_norm batch_norm"),
    (Traits(Flow.NORMALISATION, 8), "native_layer_norm native_group_norm instance_norm"),
    (Traits(Flow.NORMALISATION, 4, library="F"), "rms_norm"),
    (Traits(Flow.NORMALISATION, 4), "_weight_norm"),
    (Traits(Flow.NORMALISATION, 1), "renorm"),
    (Traits(Flow.SOFTMAX, 12, library="torch"), "softmax log_softmax"),
    (Traits(Flow.SCAN, 1, linear=True, library="torch"), "cumsum"),
    (Traits(Flow.SCAN, 1), "cumprod cummax cummin logcumsumexp"),
    (Traits(Flow.SORT, 1), "sort argsort msort topk kthvalue median mode quantile"),
    # -- products and windows ------------------------------------------------------------------------------------------
    (Traits(Flow.PRODUCT, library="torch"), "matmul mm bmm mv dot _int_mm"),
    (Traits(Flow.PRODUCT, library="F"), "linear"),
    (Traits(Flow.PRODUCT), "vdot inner matrix_power"),
    (Traits(Flow.PRODUCT, at=1, library="torch"), "addmm baddbmm addmv"),
    (Traits(Flow.PRODUCT, at=1), "addbmm"),
    (Traits(Flow.CONTRACTION, library="torch"), "einsum"),
    (Traits(Flow.CONTRACTION), "tensordot cdist bilinear chain_matmul linalg_multi_dot"),
    (Traits(Flow.ATTENTION, library="F"), "scaled_dot_product_attention"),
    (Traits(Flow.CONVOLUTION, library="F"), "conv1d conv2d conv3d"),
    (Traits(Flow.CONVOLUTION), "convolution"),
    (Traits(Flow.TRANSPOSED_CONVOLUTION, library="F"), "conv_transpose1d conv_transpose2d conv_transpose3d"),
    (Traits(Flow.POOLING, 1, spatial=1), "max_pool1d max_pool1d_with_indices"),
    (Traits(Flow.POOLING, 1, spatial=2), "max_pool2d max_pool2d_with_indices"),
    (Traits(Flow.POOLING, 1, spatial=3), "max_pool3d max_pool3d_with_indices"),
    (Traits(Flow.POOLING, 1, linear=True, spatial=1), "avg_pool1d"),
    (Traits(Flow.POOLING, 1, linear=True, spatial=2), "avg_pool2d"),
    (Traits(Flow.POOLING, 1, linear=True, spatial=3), "avg_pool3d"),
    (Traits(Flow.POOLING, 1, linear=True), "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
    (Traits(Flow.POOLING, 1), "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"),
    # -- places that are values ----------------------------------------------------------------------------------------
    (
        Traits(Flow.GATHER, linear=True),
        "embedding index index_select gather take take_along_dim grid_sampler",
    ),
    (Traits(Flow.SCATTER, 1, linear=True, at=3), "scatter_add scatter_reduce index_add index_reduce"),
    (Traits(Flow.SCATTER, linear=True, some=True, at=3), "scatter index_copy index_fill"),
    (Traits(Flow.SCATTER, linear=True, some=True, at=2), "index_put masked_scatter"),
    (Traits(Flow.SEGMENT, 1, linear=True), "embedding_bag segment_reduce"),
    (Traits(Flow.COMPOSITE, stepwise=True), "lstm gru rnn_tanh rnn_relu"),
    (Traits(Flow.COMPOSITE), "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"),
)

OPERATIONS: Mapping[str, Traits] = {name: traits for traits, names in _BY_TRAITS for name in names.split()}
"""By ATen's name, without namespace, overload and in-place underscore."""

_UNKNOWN = Traits(Flow.UNKNOWN)

_SPELLINGS: tuple[tuple[str, str], ...] = (
    ("abs", "absolute"), ("neg", "negative"), ("mul", "multiply"), ("sub", "subtract"), ("div", "divide true_divide"),
    ("clamp", "clip"), ("gt", "greater"), ("ge", "greater_equal"), ("lt", "less"), ("le", "less_equal"),
    ("ne", "not_equal"), ("trunc", "fix"), ("acos", "arccos"), ("acosh", "arccosh"), ("asin", "arcsin"),
    ("asinh", "arcsinh"), ("atan", "arctan"), ("atanh", "arctanh"), ("atan2", "arctan2"),
    ("bitwise_and", "__and__ __iand__"), ("bitwise_or", "__or__ __ior__"), ("bitwise_xor", "__xor__ __ixor__"),
    ("bitwise_left_shift", "__lshift__ __ilshift__"), ("bitwise_right_shift", "__rshift__ __irshift__"),
    ("sigmoid", "special_expit"), ("logit", "special_logit"), ("exp2", "special_exp2"), ("expm1", "special_expm1"),
    ("log1p", "special_log1p"), ("erf", "special_erf"), ("erfc", "special_erfc"), ("erfinv", "special_erfinv"),
    ("lgamma", "special_gammaln"), ("digamma", "special_digamma special_psi"), ("i0", "special_i0"),
    ("round", "special_round"), ("sinc", "special_sinc"), ("xlogy", "special_xlogy"),
    ("logsumexp", "special_logsumexp"), ("softmax", "_softmax special_softmax"),
    ("log_softmax", "_log_softmax special_log_softmax"), ("cat", "concat concatenate"),
    ("transpose", "swapaxes swapdims"), ("movedim", "moveaxis"), ("expand", "broadcast_to"),
    ("matmul", "linalg_matmul"), ("outer", "ger"), ("trapezoid", "trapz"), ("matrix_power", "linalg_matrix_power"),
    ("index_put", "_unsafe_index_put"),
)  # fmt: skip
SPELLINGS: Mapping[str, str] = {other: name for name, others in _SPELLINGS for other in others.split()}
"""Other names of the same operation, with the same arguments."""

_PASSED_THROUGH = Traits(Flow.COPY, free=True, linear=True, keeps_zeros=True)
_SCALED = Traits(Flow.CHANNELWISE, 4)
_EVALUATED: Mapping[str, tuple[int, Traits]] = {
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"), (2, _PASSED_THROUGH)),
    **dict.fromkeys(("batch_norm", "instance_norm"), (5, _SCALED)),
}
"""Operations that are something else outside training: position of the flag, and what they are then. Dropout gives its
operand back; a norm with running statistics scales and shifts each channel."""


def name(node: Node) -> str:
    """Name the operation without namespace, in-place underscore and spelling: "mul" for "aten.multiply_"."""
    plain = as_traced(node)
    if plain.endswith("_") and not plain.endswith("__"):
        plain = plain.removesuffix("_")
    return SPELLINGS.get(plain, plain)


def traits(node: Node) -> Traits:
    """Look up what is known of the operation as it is used here; UNKNOWN where the table has no line for it."""
    operation = name(node)
    known = OPERATIONS.get(operation, _UNKNOWN)
    if operation in _EVALUATED:
        flag, otherwise = _EVALUATED[operation]
        return known if node.argument(flag) else replace(otherwise, library=known.library)
    if operation in ("max", "min") and isinstance(node.argument(1), Ref):
        return OPERATIONS[f"{operation}imum"]
    if operation == "convolution" and node.argument(6):
        return OPERATIONS["conv_transpose2d"]
    if operation == "index_put" and node.argument(3, "accumulate"):
        return replace(OPERATIONS["index_add"], at=known.at)
    if known.flow is Flow.LOSS and node.shape:
        return replace(known, flow=Flow.POINTWISE)
    return known


def writes_operand(node: Node) -> bool:
    """Tell whether it changes its operand's values in place, which views of the operand show as well."""
    plain = as_traced(node)
    written = (plain.endswith("_") and not plain.endswith("__")) or plain.startswith("__i")
    return written and not traits(node).free


def is_free(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Tell whether eager launches no kernel for it; a cast to the dtype that is there already is none."""
    known = traits(node)
    if name(node) in ("to", "type_as") and not node.kwargs.get("copy"):
        source = next(node.operands(), "")
        return source in nodes and nodes[source].dtype == node.dtype
    return known.free


def unknown(graph: Graph) -> tuple[str, ...]:
    """List the operations of a graph that are in no line of the table, as traced."""
    found = (as_traced(node) for node in graph.nodes if traits(node).flow is Flow.UNKNOWN)
    return tuple(dict.fromkeys(found))


def as_traced(node: Node) -> str:
    """Name the operation as it was called: "relu_" for "aten.relu_"."""
    return node.op.removeprefix("aten.")
