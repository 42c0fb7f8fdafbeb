"""Write a comparison's numbers with those that changed first, and the equal ones folded away."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.records.wording import counted
from cutegen_core.views import Delta
from pages.components.session.evidence.resources import deltas

_NOISE = ("compile",)
"""Numbers of the machine, not of the kernel: they differ in every run and come last."""


def changed_first(rows: Sequence[Delta], names: tuple[str, str]) -> str:
    """Write a table of what differs as HTML, and a fold with what does not."""
    changed = [row for row in rows if row.left != row.right and row.name not in _NOISE]
    equal = [row for row in rows if row not in changed]
    html = deltas(changed, *names) if changed else '<div class="cg-quiet">Nothing changed.</div>'
    if not equal:
        return html
    words = counted(len(equal), "equal number")
    return f'{html}<details class="cg-equal"><summary>{words}</summary>{deltas(equal, *names)}</details>'
