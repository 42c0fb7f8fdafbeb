"""Find which elements the windows of convolutions and poolings see along each spatial dimension."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.evaluate.roofline.operands import numbers, tensor
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Node
from cutegen_core.records.operations import Flow


def windows(node: Node, rank: int, nodes: Mapping[str, Node]) -> tuple[tuple[int, int, int, int], ...]:
    """Return (window, stride, padding, dilation) along each spatial dimension of a convolution or pooling."""
    if ops.traits(node).flow is Flow.POOLING:
        window = numbers(node.argument(1, "kernel_size"), rank, 1)
        given = node.argument(2, "stride")
        stride = numbers(given, rank, 1) if given else window
        padding = numbers(node.argument(3, "padding"), rank, 0)
        dilated = "max" in ops.name(node)
        dilation = numbers(node.argument(4, "dilation"), rank, 1) if dilated else (1,) * rank
        return tuple(zip(window, stride, padding, dilation, strict=True))
    window = nodes[tensor(node, 1)].shape[-rank:]
    stride = numbers(node.argument(3, "stride"), rank, 1)
    padding = numbers(node.argument(4, "padding"), rank, 0)
    return tuple(zip(window, stride, padding, numbers(node.argument(5, "dilation"), rank, 1), strict=True))


def touched(extent: int, out: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many places along one dimension some window sees."""
    if stride <= window and dilation == 1:
        return min(extent, max(0, (out - 1) * stride + window - padding))
    places = {o * stride - padding + k * dilation for o in range(out) for k in range(window)}
    return sum(0 <= place < extent for place in places)


def taps(extent: int, out: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many elements of a window ever meet the input and not only its padding."""
    first = range(window)
    return sum(any(0 <= o * stride - padding + k * dilation < extent for o in range(out)) for k in first)
