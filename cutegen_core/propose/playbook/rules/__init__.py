"""Turn each ATen operation into values: one table, a module for each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import Rule
from cutegen_core.propose.playbook.rules import arithmetic, normalisation, products, reductions, views, windows
from cutegen_core.propose.playbook.rules.views import SEVERAL

__all__ = ["RULES", "SEVERAL"]

RULES: Mapping[str, Rule] = {
    **arithmetic.RULES,
    **reductions.RULES,
    **normalisation.RULES,
    **products.RULES,
    **windows.RULES,
    **views.RULES,
}
"""By the operation's name without "aten."."""
