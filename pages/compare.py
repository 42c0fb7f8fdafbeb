"""Compare two candidates by source, time, resources and machine code. `?a=SESSION.STEP&b=SESSION.STEP`.

A step is a number, or "best".
"""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.views.code_text import diff
from pages.components.compare_present import delta_tiles, sides
from pages.components.compare_present.changed_first import changed_first
from pages.components.compare_present.sides import Side
from pages.components.compare_present.versus import render_versus
from pages.components.shared import charts, code_pane, code_tables, data, places
from pages.components.shared.code_tables import Notes
from pages.components.shared.texts import heading, heard, note, quiet


def render_source(a: Side, b: Side) -> None:
    """Draw the difference as the session page does."""
    change = diff.summary(a.step.source, b.step.source)
    heading(f"Source: {change.added} lines added, {change.removed} removed from A to B")
    if change == (0, 0):
        quiet("The sources are identical.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        picture = st.segmented_control(
            "View", ("split", "inline"), default="split", required=True, key="compare-picture",
            label_visibility="collapsed",
        )  # fmt: skip
        st.html(code_pane.change_line(a.step.source, b.step.source))
    draw = code_tables.side_by_side if picture == "split" else code_tables.inline
    code_pane.render_code(draw(a.step.source, b.step.source, Notes()))


def render_numbers(a: Side, b: Side) -> None:
    """Draw the full tables of time, resources and machine code."""
    one, other, names = a.step.trial, b.step.trial, (a.label, b.label)
    heading("Timing")
    render_versus(one, other, names)
    heading("Resources")
    st.html(changed_first([row for row in views.compare(one, other) if "SASS" not in row.name], names))
    heading("Instruction mix, largest change first")
    st.html(changed_first(delta_tiles.mix_deltas(one, other), names))
    if views.instruction_mix(one) == views.instruction_mix(other):
        return
    mixes = {"B": dict(views.instruction_mix(other)), "A": dict(views.instruction_mix(one))}
    heard(charts.mix_words(mixes))
    st.plotly_chart(charts.mix_bars(mixes), key="compare-mix", config={"displayModeBar": False})


store = data.store()
if not store.sessions():
    for name in ("a", "b"):
        sides.say_missing(name)
    note("info", "Nothing to compare yet: no session has been started.")
    st.page_link(places.start(), label="Start a session")
    st.stop()
left, right = st.columns(2)
with left:
    a = sides.choose(store, "a", -2)
with right:
    b = sides.choose(store, "b", -1)
if a is None or b is None:
    st.stop()
sides.render_keys(store, a, b)
for side in (a, b):
    quiet(sides.verdict(side))
delta_tiles.render_tiles(a, b)
source, numbers = st.columns([1.8, 1], gap="small")
with source:
    render_source(a, b)
with numbers, st.container(key="compare-numbers"):
    render_numbers(a, b)
