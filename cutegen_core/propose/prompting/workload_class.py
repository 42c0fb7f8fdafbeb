"""The workload class of a reference, found from its traced graph and never guessed by a model.

The class chooses the menu of ideas, when profiling is worth its tokens, and what bounds the kernel (bytes or FLOPs).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from cutegen_core.records.graph import Graph, Node


class WorkloadClass(StrEnum):
    GEMM = "gemm"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SOFTMAX = "softmax and attention"
    CONVOLUTION = "convolution and pooling"
    SCAN = "scan"
    GATHER = "gather and segment"
    FUSED = "fused chain"
    OTHER = "other"


_OPS = {
    WorkloadClass.GEMM: (
        "matmul mm bmm baddbmm addmm addmv mv linear dot vdot einsum tensordot bilinear addbmm outer inner kron"
    ),
    WorkloadClass.CONVOLUTION: (
        "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d "
        "max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
        "adaptive_max_pool2d adaptive_max_pool3d unfold im2col"
    ),
    WorkloadClass.SCAN: "cumsum cumprod cummax cummin logcumsumexp",
    WorkloadClass.GATHER: (
        "embedding embedding_bag index index_select gather scatter scatter_add scatter_reduce index_add take "
        "segment_reduce index_put take_along_dim"
    ),
    WorkloadClass.SOFTMAX: "softmax log_softmax _softmax _log_softmax scaled_dot_product_attention logsumexp",
    WorkloadClass.REDUCTION: (
        "sum mean amax amin max min prod var std var_mean norm linalg_vector_norm layer_norm native_layer_norm "
        "rms_norm group_norm native_group_norm batch_norm instance_norm argmax argmin all any mse_loss l1_loss "
        "smooth_l1_loss cross_entropy_loss nll_loss kl_div triplet_margin_loss cosine_similarity "
        "cosine_embedding_loss hinge_embedding_loss "
        "huber_loss binary_cross_entropy median normalize"
    ),
}  # fmt: skip
_CLASS_OF = {op: kind for kind, names in _OPS.items() for op in names.split()}
_VIEW_NAMES = """
    input constant getitem t transpose permute view reshape flatten unsqueeze squeeze expand expand_as slice select
    chunk split contiguous clone to _to_copy detach alias numpy_T mT movedim unflatten repeat zeros ones full arange
    zeros_like ones_like full_like empty tril_indices
"""
_VIEWS = frozenset(_VIEW_NAMES.split())


def plain_op(node: Node) -> str:
    """The operation's name without its namespace: "relu" for "aten.relu"."""
    return node.op.removeprefix("aten.").split(".")[0]


def classify(graph: Graph) -> WorkloadClass:
    """The class of the whole graph; OTHER when it could not be traced."""
    if not graph.nodes:
        return WorkloadClass.OTHER
    heavy = set(_heavy(graph))
    pointwise = sum(plain_op(n) not in _VIEWS and plain_op(n) not in _CLASS_OF for n in graph.nodes)
    if not heavy:
        return WorkloadClass.ELEMENTWISE
    if WorkloadClass.SOFTMAX in heavy and heavy <= {WorkloadClass.SOFTMAX, WorkloadClass.GEMM, WorkloadClass.REDUCTION}:
        return WorkloadClass.SOFTMAX
    if len(heavy) > 1:
        return WorkloadClass.FUSED
    (kind,) = heavy
    calls = sum(1 for _ in _heavy(graph))
    if kind in (WorkloadClass.GEMM, WorkloadClass.CONVOLUTION) and (calls > 1 or pointwise > 2):
        return WorkloadClass.FUSED
    return kind


def bound(kind: WorkloadClass) -> str:
    """What such a kernel runs into first."""
    arithmetic = (WorkloadClass.GEMM, WorkloadClass.CONVOLUTION, WorkloadClass.SOFTMAX, WorkloadClass.FUSED)
    return "FLOPs or bytes, depending on the shape" if kind in arithmetic else "bytes"


def _heavy(graph: Graph) -> Iterator[WorkloadClass]:
    return (_CLASS_OF[plain_op(node)] for node in graph.nodes if plain_op(node) in _CLASS_OF)
