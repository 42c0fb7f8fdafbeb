"""The pane of the shapes: a table of every shape by step, or its picture; without times, the verdicts per workload."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.performance import Word
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import NEEDS_GPU, counted, factor_words, listed, lowered, micros
from cutegen_core.views import ShapeCell, ShapeColumn, ShapeTable
from pages.components.session.evidence.pane import PaneInput
from pages.components.shared import address, speed_charts, ui_state
from pages.components.shared.texts import Html, escape_html, heading, heard, quiet, table, tooltip

MEAN = "geometric mean"
_LAST = 12
"""Steps with a column of their own; with the existing kernel and the best."""
_PICTURES = ("table", "chart")
_WORDS = {Word.FASTER: ("▲", "passed"), Word.SAME: ("=", "quietly"), Word.SLOWER: ("▼", "failed")}


def render_shapes(given: PaneInput) -> None:
    """Draw the steps so far; every step of the session is in it, whichever is open."""
    found = views.shape_table(given.store, given.view.state, given.view.problem)
    if not found.columns:
        quiet("Every shape by step appears here with the first tested kernel.")
        return
    found, left_out = _recent(found)
    if left_out:
        quiet(f"The existing kernel, the best and the last {_LAST} steps; {counted(left_out, 'step')} left out.")
    if not found.timed:
        heading(f"{counted(len(found.rows), 'workload')} by step · verdicts")
        quiet(f"No times: timing {NEEDS_GPU}. Each cell is the verdict on that workload.")
        st.html(_verdicts(found))
        return
    heading(f"{counted(len(found.rows), 'shape')} by step · time, share of the floor, vs the existing kernel")
    if _picture() == "chart":
        heard("Chart of every shape's time over the steps, with its floor; the numbers are in the table.")
        st.plotly_chart(speed_charts.shapes_over_steps(found), key="shapes-chart", config={"displayModeBar": False})
        quiet("A line a shape; dashed is its floor, the time of work that no algorithm can avoid.")
        return
    st.html(_times(found))
    quiet(
        "★ is the best. ▲ faster, = within noise, ▼ slower than the best kernel of that moment, timed in turns. "
        "“1.92x faster” is against the existing kernel. The floor is the time of work that no algorithm can avoid."
    )


def _recent(found: ShapeTable) -> tuple[ShapeTable, int]:
    """Return the table with as many columns as one can read, and how many were left out."""
    last = found.columns[-_LAST:]
    kept = tuple(c for c in found.columns if c.is_existing or c.is_best or c in last)
    return found._replace(columns=kept), len(found.columns) - len(kept)


def _picture() -> str:
    wanted = address.get("shapes")
    drawn = wanted if wanted in _PICTURES else _PICTURES[0]
    key = ui_state.showing("shapes-picture", drawn)
    st.segmented_control(
        "Shapes as", _PICTURES, default=drawn, key=key, required=True, label_visibility="collapsed",
        on_change=ui_state.noted(address.follow, key, "shapes", drawn),
    )  # fmt: skip
    return drawn


def _times(found: ShapeTable) -> str:
    rows = [(name, *(_cell(column.cells.get(name)) for column in found.columns)) for name in found.rows]
    if found.several:
        rows.append((MEAN, *(_cell(column.mean) for column in found.columns)))
        rows.append(("regressed on", *(_regressed(column) for column in found.columns)))
    return table(("shape", *map(_head, found.columns)), [*rows])


def _head(column: ShapeColumn) -> str:
    name = "existing" if column.is_existing else f"step {column.step}"
    failed = "" if column.status in (None, Status.PASSED) else " ✗"
    return f"{name}{' ★' if column.is_best else ''}{failed}"


def _cell(cell: ShapeCell | None) -> Html:
    if cell is None:
        return Html('<span class="cg-quietly">–</span>')
    below = [
        f"{100 * cell.share:.0f} %" if cell.share else "",
        factor_words(cell.over_existing) if cell.over_existing else "",
    ]
    shape, kind = _WORDS[cell.against_best] if cell.against_best else ("", "")
    word = f' <span class="cg-{kind}" title="{lowered(cell.against_best)}">{shape}</span>' if shape else ""
    floor = f"floor {micros(cell.floor_us)}, bound by {cell.bound_by}" if cell.floor_us else "no floor: peaks unknown"
    told = " · ".join(part for part in below if part)
    return Html(f'<span title="{tooltip(floor)}">{micros(cell.us)}{word}<br><small>{escape_html(told)}</small></span>')


def _regressed(column: ShapeColumn) -> Html:
    names = listed(column.regressed)
    return Html(f'<span class="cg-failed">▼ {escape_html(names)}</span>') if names else Html("")


def _verdicts(found: ShapeTable) -> str:
    rows = [(name, *(_verdict(column.verdicts.get(name)) for column in found.columns)) for name in found.rows]
    return table(("workload", *map(_head, found.columns)), [*rows], numbers_from=99)


def _verdict(status: Status | None) -> Html:
    if status is None:
        return Html('<span class="cg-quietly">not run</span>')
    shape, kind = ("✓", "passed") if status is Status.PASSED else ("✗", "failed")
    return Html(f'<span class="cg-{kind}">{shape} {escape_html(lowered(status))}</span>')
