"""Is the reference one call of a vendor's library? Then eager is that call, and its time has a name."""

from __future__ import annotations

from cutegen_core.records.graph import Graph, Node

_CALLS = {
    "aten.mm": "torch.mm", "aten.bmm": "torch.bmm", "aten.matmul": "torch.matmul", "aten.mv": "torch.mv",
    "aten.dot": "torch.dot", "aten.addmm": "torch.addmm", "aten.baddbmm": "torch.baddbmm",
    "aten.linear": "F.linear", "aten.conv1d": "F.conv1d", "aten.conv2d": "F.conv2d", "aten.conv3d": "F.conv3d",
    "aten.conv_transpose1d": "F.conv_transpose1d", "aten.conv_transpose2d": "F.conv_transpose2d",
    "aten.conv_transpose3d": "F.conv_transpose3d", "aten.softmax": "torch.softmax",
    "aten.log_softmax": "torch.log_softmax", "aten.layer_norm": "F.layer_norm", "aten.rms_norm": "F.rms_norm",
    "aten.batch_norm": "F.batch_norm", "aten.group_norm": "F.group_norm", "aten.cumsum": "torch.cumsum",
    "aten.scaled_dot_product_attention": "F.scaled_dot_product_attention", "aten.einsum": "torch.einsum",
}  # fmt: skip
_VIEWS = frozenset(
    f"aten.{name}" for name in (
        "t", "transpose", "numpy_T", "permute", "view", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "alias",
    )
)  # fmt: skip


def library_call(graph: Graph) -> str | None:
    """The call's name, such as "torch.mm", where one library operation and views are all the reference does."""
    works = [node for node in graph.nodes if not _is_free(node)]
    return _CALLS.get(works[0].op) if len(works) == 1 else None


def _is_free(node: Node) -> bool:
    return node.op in ("input", "getitem") or node.op in _VIEWS
