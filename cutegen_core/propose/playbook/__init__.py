"""The playbook: CuTe kernels from the reference's graph, without a model.

1. `lowering` turns the traced graph into values, composite operations taken apart by `rules`.
2. `regions` cuts them into kernels: elementwise, row reductions, matrix products, convolutions, poolings (`windows`).
3. `kernels` gives each what a template reads: names, parameters with their layouts, statements.
4. `variants` writes each as a naive, a better and a tuned kernel file from `templates/` (`writing`); kernels that
   differ in names only are one (`repeats`).
A reference it cannot do raises NotInPlaybook, which says what is missing and what is covered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.cute_features import cute_features
from cutegen_core.propose.playbook import gather, serving
from cutegen_core.propose.playbook.call import COVERED
from cutegen_core.propose.playbook.graphs.choice import Choose, foremost, simplest, spread
from cutegen_core.propose.playbook.graphs.in_place import seen_writes
from cutegen_core.propose.playbook.graphs.missing import operations_without_rule
from cutegen_core.propose.playbook.graphs.sizes import Traced, with_sizes
from cutegen_core.propose.playbook.lowering import lower
from cutegen_core.propose.playbook.regions import Planner
from cutegen_core.propose.playbook.serving.writing import ServingLevel, write
from cutegen_core.propose.playbook.target import ANY, Target
from cutegen_core.propose.playbook.values import NotInPlaybook, Value, deep, plain
from cutegen_core.propose.playbook.variants import Variant, write_variants
from cutegen_core.propose.playbook.words.redirects import not_understood, redirect, understood
from cutegen_core.records.errors import KernelFileTooLargeError
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature
from cutegen_core.records.wording import in_ascii

__all__ = [
    "Coverage",
    "NotInPlaybook",
    "Target",
    "Traced",
    "Variant",
    "cover",
    "cute_features",
    "defect",
    "menu",
    "not_understood",
    "propose",
    "redirect",
    "understood",
]

_log = logging.getLogger(__name__)


@deep()
def propose(
    graph: Graph, signature: Signature, name: str, target: Target = ANY, others: Sequence[Traced] = ()
) -> tuple[Variant, ...]:
    """Return the kernels for a reference, naive first; raise NotInPlaybook with what is missing and what is covered.

    Args:
        others: the same reference at other workloads, which show what numbers of the graph follow the sizes.
    """
    graph = with_sizes(graph, signature, others)
    if whole := _whole(graph, signature):
        return tuple(write(level, _identifier(name)) for level in whole)
    plans = (
        _plan(graph, signature, simplest),
        _plan(graph, signature, spread),
        _plan(graph, signature, foremost, fast=target.allows("fast_math")),
    )
    taken = {t.name for t in signature.tensors} | set(signature.scalars).union(*(plan.taken for plan in plans))
    variants = write_variants(plans, _identifier(name), taken, target)
    _check_size(variants[-1])
    return variants


def _check_size(variant: Variant) -> None:
    """Refuse kernels that no kernel file may hold: of a whole network, say."""
    try:
        kernel_file.parse(variant.source)
    except KernelFileTooLargeError as error:
        text = f"a reference whose kernels do not fit into one kernel file is not in the playbook: {error.what}"
        raise NotInPlaybook(f"{text}. Loops are unrolled: one of fewer steps may fit") from error


def menu(
    graph: Graph, signature: Signature, target: Target = ANY, others: Sequence[Traced] = ()
) -> tuple[tuple[str, str], ...]:
    """Return (name, idea) of every variant, in order; raise NotInPlaybook."""
    return tuple((variant.name, variant.idea) for variant in propose(graph, signature, "", target, others))


class Coverage(NamedTuple):
    """What the playbook has for a reference.

    Attributes:
        families: the kinds of kernels that recognise it, such as "product" and "rows"; none, and no kernels, otherwise.
        kernels: their names, naive first.
        missing: what the playbook does not know, where it has no kernels.
    """

    families: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    missing: str = ""


def defect(error: Exception) -> NotInPlaybook:
    """Return what to say of an error that nobody foresaw, which is logged: it costs one reference, and no other."""
    _log.error("the playbook failed", exc_info=error)
    return NotInPlaybook(
        f"the playbook failed on this reference: {type(error).__name__}: {error}. That is a defect of the workbench; "
        "please report it with the file"
    )


@deep()
def cover(graph: Graph, signature: Signature, target: Target = ANY, others: Sequence[Traced] = ()) -> Coverage:
    """Return which families recognise a reference, or why none does."""
    try:
        kernels = tuple(name for name, _ in menu(graph, signature, target, others))
        return Coverage(_families(with_sizes(graph, signature, others), signature), kernels)
    except NotInPlaybook as reason:
        unknown = operations_without_rule(graph)
        return Coverage(
            missing=f"no rule for {', '.join(unknown)}" if unknown else str(reason).removesuffix(f"; {COVERED}")
        )
    except Exception as error:  # noqa: BLE001 - of a folder of references, the others are still listed
        return Coverage(missing=str(defect(error)))


def _families(graph: Graph, signature: Signature) -> tuple[str, ...]:
    if _whole(graph, signature):
        return ("serving" if serving.levels_of(graph, signature) else "gather",)
    return tuple(dict.fromkeys(region.kind.value for region in _plan(graph, signature, spread).regions))


def _whole(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu of a graph that is recognised as a whole, else nothing; `lower` refuses writes that are seen."""
    if graph.reason or seen_writes(graph):
        return ()
    return serving.levels_of(graph, signature) or gather.levels_of(graph, signature)


def _plan(graph: Graph, signature: Signature, choose: Choose, *, fast: bool = False) -> Planner:
    values = list(map(plain, choose(lower(graph, signature))))
    taken, expected = {t.name for t in signature.tensors} | set(signature.scalars), tuple[Value, ...]()
    for _ in range(2):  # the second time with what the first has shown to be written
        planner = Planner(set(taken), fast, expected)
        planner.outputs(values, [spec.name for spec in signature.outputs])
        expected = planner.written
    return planner


def _identifier(name: str) -> str:
    """Return a kernel name made from a problem's name: "23_Softmax" -> "softmax_kernel".

    NVRTC takes letters of ASCII only.
    """
    words = re.sub(r"\W+", "_", in_ascii(name), flags=re.ASCII).strip("_").lower()
    return f"{re.sub(r'^[0-9_]+', '', words) or 'fused'}_kernel"
