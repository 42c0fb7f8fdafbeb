"""Estimate from the traced graph how much of eager's time is avoidable memory traffic; needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.evaluate.roofline.operands import by_name
from cutegen_core.evaluate.roofline.work import graph_work, unfused_bytes
from cutegen_core.judge.reference import Reference
from cutegen_core.problems.lint.rules import LintFinding
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.wording import data_size

_WASTE = 1.5

_BY_HAND = (
    ("pow mean add rsqrt mul", "F.rms_norm"),
    ("pow mean add sqrt div", "F.rms_norm"),
    ("mean sub pow mean add sqrt div", "F.layer_norm"),
    ("var mean sub add sqrt div", "F.layer_norm"),
    ("softmax matmul", "F.scaled_dot_product_attention"),
    ("softmax bmm", "F.scaled_dot_product_attention"),
    ("exp sum div", "torch.softmax"),
    ("abs add div", "F.softsign"),
    ("sigmoid mul", "F.silu"),
    ("softplus tanh mul", "F.mish"),
    ("max sub exp sum log", "torch.logsumexp"),
)
"""Sequences of operations for which a library has one call; other operations may stand between them."""


def check_baseline(problem: Problem, reference: Reference) -> Iterator[LintFinding]:
    """Yield what the graph of the first benchmark shows."""
    for workload in problem.with_role(WorkloadRole.BENCHMARK)[:1]:
        graph = reference.graph(workload)
        if not graph.nodes:
            yield LintFinding("untraced", f"workload {workload.name}: {graph.reason}")
            continue
        if any(ops.name(node) == "_enter_autocast" and node.argument(0) != "cpu" for node in graph.nodes):
            yield LintFinding("autocast", "forward computes in other dtypes on a GPU, under torch.autocast.")
        unknown = ops.unknown(graph)
        if unknown:
            yield LintFinding(
                "unknown-operation", f"workload {workload.name}: nothing is known of {', '.join(unknown)}."
            )
        kernels, eager = _kernels(graph), unfused_bytes(graph)
        fused = graph_work(graph, reference.signature(workload)).moved_bytes
        if len(kernels) > 1 and eager >= _WASTE * fused:
            yield LintFinding("weak-baseline", _describe(kernels, eager, fused))


def _describe(kernels: tuple[str, ...], eager: int, fused: int) -> str:
    by_hand = _find_library_call(kernels)
    call = f" Written out by hand, it looks like {by_hand}." if by_hand else ""
    return (
        f"eager runs {len(kernels)} kernels ({', '.join(kernels[:8])}{' …' if len(kernels) > 8 else ''}) and moves "
        f"{eager / fused:.1f} times the bytes of one fused kernel ({data_size(eager)} against {data_size(fused)})."
        f"{call}"
    )


def _find_library_call(kernels: tuple[str, ...]) -> str:
    """Return the library call that these operations spell out, or "" if none is known."""
    for text, call in _BY_HAND:
        left = iter(kernels)
        if all(word in left for word in text.split()):
            return call
    return ""


def _kernels(graph: Graph) -> tuple[str, ...]:
    """Return the operations that eager launches a kernel for, in order."""
    nodes = by_name(graph)
    return tuple(ops.name(node) for node in graph.nodes if not ops.is_free(node, nodes))
