"""The playbook: CuTe kernels from the reference's graph, without a model.

1. `lowering` turns the traced graph into values, composite operations taken apart by `rules`.
2. `regions` cuts them into kernels: elementwise, row reductions, matrix products.
3. `kernels` gives each what a template reads: names, parameters with their layouts, statements.
4. `variants` writes each as a naive, a better and a tuned kernel file from `templates/` (`writing`).
A reference it cannot do raises NotInPlaybook, which says what is missing and what is covered.
"""

from __future__ import annotations

import re

from cutegen_core.propose.playbook.features import cute_features
from cutegen_core.propose.playbook.lowering import lower
from cutegen_core.propose.playbook.redirects import redirect, understood
from cutegen_core.propose.playbook.regions import Planner, Region
from cutegen_core.propose.playbook.values import NotInPlaybook
from cutegen_core.propose.playbook.variants import Variant, menu_of, write_variants
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature

__all__ = ["NotInPlaybook", "Variant", "cute_features", "menu", "propose", "redirect", "understood"]


def propose(graph: Graph, signature: Signature, name: str) -> tuple[Variant, ...]:
    """Return the kernels for a reference, naive first; raise NotInPlaybook with what is missing and what is covered."""
    planner = _plan(graph, signature)
    taken = {t.name for t in signature.tensors} | set(signature.scalars) | planner.taken
    return write_variants(planner.regions, planner.scratch, _identifier(name), taken)


def menu(graph: Graph, signature: Signature) -> tuple[tuple[str, str], ...]:
    """Return (name, idea) of every variant, in order; raise NotInPlaybook."""
    last: Region = _plan(graph, signature).regions[-1]
    return tuple((level.name, level.idea) for level in menu_of(last))


def _plan(graph: Graph, signature: Signature) -> Planner:
    values = lower(graph, signature)
    planner = Planner({t.name for t in signature.tensors} | set(signature.scalars))
    for value, spec in zip(values, signature.outputs, strict=True):
        planner.output(value, spec.name)
    return planner


def _identifier(name: str) -> str:
    """Return a kernel name made from a problem's name: "23_Softmax" -> "softmax_kernel"."""
    words = re.sub(r"\W+", "_", name).strip("_").lower()
    return f"{re.sub(r'^[0-9_]+', '', words) or 'fused'}_kernel"
