"""Show the step's plan and kernel: the source, or the difference from its parent, the best, or any step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Gate
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import dims
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session import hunk_view
from pages.components.session.evidence import profile_pane
from pages.components.shared import address, code_tables, places, ui_state
from pages.components.shared.code_tables import Notes
from pages.components.shared.texts import escape_html, quiet, show_hidden

VIEWS = ("source", "inline", "split")


class _Other(NamedTuple):
    """A candidate to compare with."""

    label: str
    candidate: str


def render_source(store: Store, view: SessionView, shown: StepView) -> None:
    """Draw title, plan, choice of the view, and the view."""
    st.html(f'<div class="cg-step-title">{_title(shown)}</div>')
    if shown.step.plan:
        st.html(f'<div class="cg-plan">{escape_html(shown.step.plan)}</div>')
    if not shown.source:
        quiet(_no_kernel(view, shown))
        return
    choices = _choices(view, shown)
    picture, other = _toolbar(view, shown, choices)
    if picture == hunk_view.VIEW:
        hunk_view.render_hunks(store, view, shown)
        return
    notes = _notes(store, view, shown)
    with st.container(key="code-pane"):
        if other is None or picture == "source":
            st.html(code_tables.plain(shown.source, notes))
        elif picture == "inline":
            st.html(code_tables.inline(store.text(other.candidate), shown.source, notes))
        else:
            st.html(code_tables.side_by_side(store.text(other.candidate), shown.source, notes))
    if launch := _launch(shown.trial):
        quiet(launch)
    if "cute/" in shown.source:
        st.page_link(places.layouts(), label="Show its layouts",
                     query_params={"id": view.id, "step": str(shown.step.number)})  # fmt: skip


def _notes(store: Store, view: SessionView, shown: StepView) -> Notes:
    """Collect the messages about the lines, and the profiler's time at each."""
    found = views.profile_view(store, view.state, shown.step).profile
    return Notes(line_messages(shown.trial), profile_pane.heat(found))


def line_messages(trial: Trial | None) -> Mapping[int, tuple[str, ...]]:
    """Collect the compiler's and the checker's messages by line number."""
    said: dict[int, list[str]] = {}
    for diagnostic in trial.diagnostics if trial else ():
        if diagnostic.line:
            said.setdefault(diagnostic.line, []).append(
                f"{diagnostic.severity} ({diagnostic.tool}): {diagnostic.message}"
            )
    for verdict in trial.correctness.verdicts if trial and trial.correctness else ():
        for finding in verdict.findings:
            if finding.line:
                said.setdefault(finding.line, []).append(f"{finding.kind} (checker): {finding.message}")
    return {line: tuple(dict.fromkeys(messages)) for line, messages in said.items()}


def _launch(trial: Trial | None) -> str:
    """Describe the largest workload's launch and what limits its occupancy."""
    rows = trial.resources.occupancy if trial and trial.resources else ()
    if not rows:
        return ""
    row = max(rows, key=lambda r: r.waves)
    return (
        f"{row.workload}: {row.kernel}, grid {dims(row.grid)}, block {dims(row.block)}, {row.smem_bytes} B shared, "
        f"{row.waves:.2f} waves, occupancy {100 * row.occupancy:.0f} % limited by {row.limiter}"
    )


def _no_kernel(view: SessionView, shown: StepView) -> str:
    """Say why there is no kernel, and what to do."""
    if shown.step.outcome:
        return "This step ended before a kernel was written."
    if view.state.gate and view.state.gate.gate is Gate.INSTRUCTION and shown.step is view.state.step:
        return (
            "No kernel yet: the proposer needs an instruction. Type below what to try next (or click an idea) and press"
            " Redirect, write the kernel yourself with Edit & run, or accept the best."
        )
    return "No kernel yet: it appears here as soon as it is proposed."


def _title(shown: StepView) -> str:
    step = shown.step
    author = f" by {step.author}" if step.author else ""
    asked = f" · instruction: “{step.instruction}”" if step.instruction else ""
    told = escape_html(author + asked)
    idea = escape_html(step.idea or ("no kernel" if step.outcome else "not written yet"))
    return f"<b>Step {step.number}</b> {idea}<span class='cg-quiet'>{told}</span>"


def _choices(view: SessionView, shown: StepView) -> dict[str, _Other]:
    """List what this source can be compared with, the parent first and itself left out."""
    own, parent, best = shown.step.candidate, shown.step.parent or shown.step.base, view.state.best
    found: dict[str, _Other] = {}
    if parent and parent != own:
        found["parent"] = _Other(_label(view, "parent", parent), parent)
    if best and best != own:
        found["best"] = _Other(_label(view, "best", best), best)
    for row in reversed(view.steps):
        if row.candidate and row.candidate != own and row.number != shown.step.number:
            found[str(row.number)] = _Other(f"step {row.number}: {row.idea[:40]}", row.candidate)
    return found


def _label(view: SessionView, word: str, candidate: str) -> str:
    step = view.state.step_of(candidate)
    return f"{word} (step {step.number})" if step else word


def _toolbar(view: SessionView, shown: StepView, choices: dict[str, _Other]) -> tuple[str, _Other | None]:
    left, middle, _ = st.columns([1.7, 1.6, 0.5], vertical_alignment="center")
    wanted = st.query_params.get("view", "")
    pictures = (*VIEWS, hunk_view.VIEW) if hunk_view.visible(view, shown) else VIEWS
    by_sass = st.query_params.get("pane") == "sass"  # whose instructions link to the lines of the whole source
    usual = "inline" if "parent" in choices and not by_sass else "source"
    picture = wanted if wanted in pictures else usual
    key, against_key = f"picture-{usual}-{len(pictures)}", f"against-{view.id}-{shown.step.number}"
    ui_state.put(key, picture)
    with left:
        st.segmented_control(
            "View", pictures, key=key, required=True, label_visibility="collapsed",
            on_change=ui_state.noted(address.follow, key, "view", picture), disabled=not choices,
        )  # fmt: skip
    if not choices:
        return "source", None
    with middle:
        name = st.query_params.get("against", "")
        drawn = name if name in choices else next(iter(choices))
        ui_state.put(against_key, drawn)
        chosen = st.selectbox(
            "Compare with", list(choices), key=against_key, format_func=lambda n: show_hidden(choices[n].label),
            label_visibility="collapsed", on_change=ui_state.noted(address.follow, against_key, "against", drawn),
            disabled=picture in ("source", hunk_view.VIEW),
        )  # fmt: skip
    return picture, choices[chosen]
