"""Draw the outcome of the shown step in one line: right or wrong, how fast against what, promoted or why not."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.evidence import Remark, Tone
from cutegen_core.records.trial import Mark
from cutegen_core.views import SessionView, StepView
from pages.components.session.evidence.sections import toned
from pages.components.shared import marks
from pages.components.shared.texts import Html, escape_html, tooltip


def render_outcome(view: SessionView, shown: StepView) -> None:
    """Draw the line; a long message ends in dots, and its tooltip has all of it."""
    verdict, *rest = views.outcome_line(view.state, shown)
    parts = (f"<b>{_part(verdict)}</b>", *map(_part, rest))
    step = f'<span class="cg-outcome-step">Step {shown.step.number}</span>'
    timed = shown.trial.marks if shown.trial and shown.trial.performance else ()
    marked = [mark for mark in timed if mark is not Mark.CONFIRM]  # the question says it
    st.html(f'<div class="cg-outcome" role="status">{step}{"".join(parts)}{marks.chips(marked)}</div>')


def _part(remark: Remark) -> Html:
    kind = "asked" if remark.tone is Tone.DOUBTFUL and remark.text.endswith("?") else ""
    text = f"◆ {escape_html(remark.text)}" if kind else toned(remark.tone, remark.text)
    return Html(f'<span class="cg-outcome-part {kind}" title="{tooltip(remark.text)}">{text}</span>')
