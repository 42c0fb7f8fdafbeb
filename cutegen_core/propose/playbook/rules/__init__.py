"""Turn each ATen operation into values: one table, a module for each kind of operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule
from cutegen_core.propose.playbook.rules import (
    arithmetic,
    attention,
    cells,
    einsum,
    images,
    joins,
    losses,
    normalisation,
    pieces,
    places,
    products,
    ranks,
    recurrent,
    reductions,
    scans,
    special,
    taken,
    views,
    written,
)
from cutegen_core.propose.playbook.values import Value

__all__ = ["RULES", "SEVERAL"]

SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    **pieces.SEVERAL,
    **places.SEVERAL,
    **reductions.SEVERAL,
    **ranks.SEVERAL,
    **cells.SEVERAL,
    **recurrent.SEVERAL,
}
"""Operations with several results, one value each, named as "getitem" asks for them."""

RULES: Mapping[str, Rule] = {
    **arithmetic.RULES,
    **special.RULES,
    **reductions.RULES,
    **losses.RULES,
    **places.RULES,
    **ranks.RULES,
    **written.RULES,
    **taken.RULES,
    **normalisation.RULES,
    **products.RULES,
    **cells.RULES,
    **einsum.RULES,
    **scans.RULES,
    **joins.RULES,
    **images.RULES,
    **pieces.RULES,
    **views.RULES,
    **attention.RULES,
}
"""By the operation's name without "aten."."""
