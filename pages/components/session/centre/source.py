"""Show the step's plan and kernel: the source, or the difference from its parent, the best, or any step."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import dims
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session import hunk_view
from pages.components.session.centre import against, line_notes, room
from pages.components.session.centre.against import Other
from pages.components.session.centre.no_kernel import render_no_kernel
from pages.components.shared import address, code_pane, code_tables, places, ui_state
from pages.components.shared.texts import escape_html, quiet, show_hidden

VIEWS = ("source", "inline", "split")


class _Toolbar(NamedTuple):
    """How the kernel is drawn, against which other one (None where there is none), and the place to say how much."""

    view: str
    other: Other | None
    place: DeltaGenerator


def render_source(store: Store, view: SessionView, shown: StepView, *, wide: bool) -> None:
    """Draw title, plan, choice of the view, and the view; `wide` where the evidence has stepped back."""
    st.html(f'<div class="cg-step-title">{_title(shown)}</div>')
    if not shown.source:
        render_no_kernel(store, view, shown)
        return
    if shown.step.plan:
        st.html(f'<div class="cg-plan">{escape_html(shown.step.plan)}</div>')
    picture = _toolbar(view, shown, wide=wide)
    if picture.view == hunk_view.VIEW:
        hunk_view.render_hunks(store, view, shown)
        return
    _render_code(store, view, shown, picture)
    if launch := _launch(shown.trial):
        quiet(launch)
    if "cute/" in shown.source:
        st.page_link(places.layouts(), label="Show its layouts",
                     query_params={"id": view.id, "step": str(shown.step.number)})  # fmt: skip


def _render_code(store: Store, view: SessionView, shown: StepView, picture: _Toolbar) -> None:
    """Draw the source, or how much changed and the difference."""
    notes = line_notes.notes(store, view, shown)
    if picture.other is None or picture.view == "source":
        code_pane.render_code(code_tables.plain(shown.source, notes))
        return
    before = store.text(picture.other.candidate)
    draw = code_tables.inline if picture.view == "inline" else code_tables.side_by_side
    with picture.place:
        st.html(code_pane.change_line(before, shown.source))
    code_pane.render_code(draw(before, shown.source, notes))


def _launch(trial: Trial | None) -> str:
    """Describe the largest launch of the largest workload and what limits its occupancy."""
    rows = trial.resources.occupancy if trial and trial.resources else ()
    if not rows:
        return ""
    row = max(rows, key=lambda r: r.waves)
    launches = sum(other.workload == row.workload for other in rows)
    which = f"{row.workload}, the largest of {launches} launches" if launches > 1 else row.workload
    return (
        f"{which}: {row.kernel}, grid {dims(row.grid)}, block {dims(row.block)}, {row.smem_bytes} B shared, "
        f"{row.waves:.2f} waves, occupancy {100 * row.occupancy:.0f} % limited by {row.limiter}"
    )


def _title(shown: StepView) -> str:
    step = shown.step
    author = f" by {step.author}" if step.author else ""
    asked = f" · instruction: “{step.instruction}”" if step.instruction else ""
    told = escape_html(author + asked)
    idea = escape_html(step.idea or ("no kernel" if step.outcome else "not written yet"))
    return f"<b>Step {step.number}</b> {idea}<span class='cg-quiet'>{told}</span>"


def _toolbar(view: SessionView, shown: StepView, *, wide: bool) -> _Toolbar:
    choices = against.choices(view, shown)
    shares = [1.5, 1.5, 1.8, 1] if wide else [1.7, 1.6]
    left, middle, *more = st.columns(shares, vertical_alignment="center")
    below = st.container(horizontal=True, vertical_alignment="center")
    place, right = more if wide else (below, below)
    wanted = address.get("view")
    pictures = (*VIEWS, hunk_view.VIEW) if hunk_view.visible(view, shown) else VIEWS
    usual = _usual(choices, wide=wide)
    picture = wanted if wanted in pictures else usual
    key = ui_state.showing(f"picture-{usual}-{len(pictures)}", picture)
    with left:
        st.segmented_control(
            "View", pictures, default=picture, key=key, required=True, label_visibility="collapsed",
            on_change=ui_state.noted(address.follow, key, "view", picture), disabled=not choices,
        )  # fmt: skip
    with right:
        if wide or (shown.trial is None and room.panes_are_asked_for()):
            room.panes_button(shown)
    if not choices:
        return _Toolbar("source", None, place)
    with middle:
        name = address.get("against")
        drawn = name if name in choices else next(iter(choices))
        key = ui_state.showing(f"against-{view.id}-{shown.step.number}", drawn)
        chosen = st.selectbox(
            "Compare with", list(choices), list(choices).index(drawn), key=key, label_visibility="collapsed",
            format_func=lambda n: show_hidden(choices[n].label), disabled=picture in ("source", hunk_view.VIEW),
            on_change=ui_state.noted(address.follow, key, "against", drawn),
        )  # fmt: skip
    return _Toolbar(picture, choices[chosen], place)


def _usual(choices: dict[str, Other], *, wide: bool) -> str:
    """Return the view that a step opens with: a change side by side where it has the width."""
    by_sass = address.get("pane") == "sass"  # whose instructions link to the lines of the whole source
    if by_sass or next(iter(choices), "") not in ("parent", "seed"):
        return "source"
    return "split" if wide else "inline"
