"""The table of a tune step: every combination of the declared parameters, and which one was chosen."""

from __future__ import annotations

import streamlit as st

from cutegen_core.store import Store
from cutegen_core.trial import Status
from pages.components.texts import Html, escaped, heading, lowered, quiet, table


def render_sweep(store: Store, sweep: str) -> None:
    """`sweep` is the key of the stored table."""
    # Imported late: it knows the evaluator, which takes a while to load and most steps are no sweeps.
    from cutegen_core.tuning import SweepRow, SweepTable

    found = store.record(SweepTable, sweep)
    names = list(found.rows[0].params) if found.rows else []

    def cells(number: int, row: SweepRow) -> tuple[object, ...]:
        passed = row.status is Status.PASSED
        shape, kind = ("✓", "passed") if passed else ("✗", "failed")
        verdict = Html(f'<span class="cg-{kind}" title="{escaped(row.message)}">{shape} {lowered(row.status)}</span>')
        numbers = (row.registers, row.spill_bytes, f"{100 * row.occupancy:.0f} %") if row.registers else ("", "", "")
        chosen = "★" if number == found.chosen else "default" if number == 0 else ""
        timed = "" if row.latency_ms is None else f"{row.latency_ms:.4f}"
        return (chosen, verdict, *(row.params[name] for name in names), *numbers, timed)

    passed = sum(row.status is Status.PASSED for row in found.rows)
    heading(f"Sweep · {passed} of {len(found.rows)} combinations passed")
    header = ("", "verdict", *names, "registers", "spilled, B", "occupancy", "ms")
    st.html(table(header, [cells(i, row) for i, row in enumerate(found.rows)], numbers_from=2))
    left_out = f" {found.left_out} further combinations were not tried." if found.left_out else ""
    quiet(f"★ is the choice. Decided by {found.decided_by}.{left_out}")
