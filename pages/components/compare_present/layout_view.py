"""Draw layouts: offsets coloured by shared-memory bank, or the thread and value that hold each element."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.machine import device
from cutegen_core.records.errors import UsageError
from cutegen_core.records.wording import counted
from cutegen_core.views.layouts import LayoutTable, Partition, Pattern, Picture, bank, conflicts, evaluate
from pages.components.shared.texts import escape_html, heading, note, quiet, show_hidden

MOST_ROWS, MOST_COLS = 64, 64
_BYTES = {
    "float": 4, "tfloat32_t": 4, "double": 8, "half_t": 2, "bfloat16_t": 2, "int": 4, "int8_t": 1, "uint8_t": 1,
    "float_e4m3_t": 1, "float_e5m2_t": 1,
}  # fmt: skip
ITEM_BYTES = (1, 2, 4, 8)
ACCESS_BYTES = (1, 2, 4, 8, 16)


class WarpAccess(NamedTuple):
    """How a warp accesses the layout, if it is in shared memory."""

    itemsize: int
    width_bytes: int


def choose_access(source: str) -> WarpAccess:
    """Draw the choices of the element's size, as the kernel suggests it, and of the bytes per thread."""
    heading("Shared memory access")
    one, two = st.columns(2)
    with one:
        suggested = ITEM_BYTES.index(_item_bytes(source))
        itemsize = st.selectbox("Bytes per element", ITEM_BYTES, index=suggested, key="layout-itemsize")
    with two:
        width = st.selectbox("Bytes per thread", ACCESS_BYTES, index=4, key="layout-width")
    return WarpAccess(itemsize, width)


def _item_bytes(source: str) -> int:
    """Guess the element's size from the type that a kernel names Element, else from the types it uses, else 2."""
    named = re.search(r"using\s+Element\s*=\s*(\w+)", source)
    if named:
        return _BYTES.get(named[1], 2)
    return 4 if re.search(r"\bfloat\b", source) and not re.search(r"half|bfloat16|tf32|float16", source) else 2


def render(title: str, expression: str, before: tuple[str, ...], access: WarpAccess) -> None:
    """Draw a declaration or expression and its layouts, or the error that says what to change."""
    heading(title[:120], is_code=True)
    with st.expander("Evaluated code"):
        st.code(show_hidden("\n".join([*before, expression])), language="cpp")
    try:
        with st.spinner("Compiling for the emulator …", show_time=True):
            pictures = _evaluated(expression, before)
    except UsageError as error:
        note("error", str(error))
        return
    for picture in pictures:
        if isinstance(picture, LayoutTable):
            _layout(picture, access)
        else:
            _partition(picture)


@st.cache_data(show_spinner=False, max_entries=64)
def _evaluated(expression: str, before: tuple[str, ...]) -> tuple[Picture, ...]:
    return evaluate(_executor(), device.choose_device(), expression, before)


@st.cache_resource(show_spinner=False)
def _executor() -> CpuExecutor:
    return CpuExecutor()


# ---- layouts


def _layout(table: LayoutTable, access: WarpAccess) -> None:
    used = max(table.offsets, default=0) + 1
    hit = len(set(table.offsets))
    extent = f"{table.rows} x {table.cols}, {hit} offsets of {used}"
    padding = f", {used - hit} unused" if used > hit else ""
    shared = "" if hit == len(table.offsets) else "; several coordinates share an offset"
    quiet(f"Offsets in elements: {extent}{padding}{shared}. Colour: the bank, for {access.itemsize}-byte elements.")
    for pattern in Pattern:
        _conflicts(table, access, pattern)
    st.html(_grid(table.rows, table.cols, lambda i, j: _offset_cell(table, i, j, access.itemsize)))
    _cut(table)


def _conflicts(table: LayoutTable, access: WarpAccess, pattern: Pattern) -> None:
    width = max(1, access.width_bytes // access.itemsize)
    try:
        ways = conflicts(table, access.itemsize, width, pattern)
    except UsageError as error:
        quiet(f"{pattern}: {error}")
        return
    said = f"a warp {pattern}, {counted(width, 'element')} per thread"
    if ways == 1:
        st.html(f'<div class="cg-conflict cg-passed">✓ no bank conflict: {escape_html(said)}</div>')
    else:
        st.html(f'<div class="cg-conflict cg-failed">✗ {ways}-way bank conflict: {escape_html(said)}</div>')


def _offset_cell(table: LayoutTable, row: int, col: int, itemsize: int) -> str:
    offset = table.offset(row, col)
    number = bank(offset, itemsize)
    return f'<td style="--bank:{number}" title="({row}, {col}): offset {offset}, bank {number}">{offset}</td>'


# ---- partitions

_OPERANDS = {
    "A": "A of the MMA (M x K)", "B": "B of the MMA (N x K)", "C": "C of the MMA (M x N)",
    "source": "source of the copy", "destination": "destination of the copy",
}  # fmt: skip


def _partition(part: Partition) -> None:
    held = sum(len(owners) for owners in part.owners)
    copies = held / max(1, len(part.owners))
    several = f"; each element is held {copies:g} times, the first holder is shown" if copies > 1 else ""
    quiet(f"{_OPERANDS[part.operand]}: {part.rows} x {part.cols} over {part.threads} threads with {part.values} values "
          f"each{several}. T: thread, V: its value. Colour: the thread's lane.")  # fmt: skip
    st.html(_grid(part.rows, part.cols, lambda i, j: _owner_cell(part, i, j)))
    _cut(part)


def _owner_cell(part: Partition, row: int, col: int) -> str:
    owners = part.owners[row + part.rows * col]
    if not owners:
        return '<td class="cg-nobody">-</td>'
    thread, value = owners[0]
    everyone = ", ".join(f"T{t} V{v}" for t, v in owners[:8])
    return f'<td style="--bank:{thread % 32}" title="({row}, {col}): {everyone}">T{thread}<br>V{value}</td>'


# ---- both


def _grid(rows: int, cols: int, cell: Callable[[int, int], str]) -> str:
    """Write a grid as HTML; `cell` writes the cell at (row, column)."""
    shown = range(min(cols, MOST_COLS))
    head = "".join(f'<th scope="col">{j}</th>' for j in shown)
    body = "".join(
        f'<tr><th scope="row">{i}</th>{"".join(cell(i, j) for j in shown)}</tr>' for i in range(min(rows, MOST_ROWS))
    )
    scroll = '<div class="cg-scroll cg-layout" tabindex="0" role="region" aria-label="Layout">'
    return f"{scroll}<table><tr><td></td>{head}</tr>{body}</table></div>"


def _cut(picture: Picture) -> None:
    if picture.rows > MOST_ROWS or picture.cols > MOST_COLS:
        shown = f"{min(picture.rows, MOST_ROWS)} x {min(picture.cols, MOST_COLS)}"
        quiet(f"Showing the first {shown} of {picture.rows} x {picture.cols}. Bank conflicts are counted for all.")
