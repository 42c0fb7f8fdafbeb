"""The timing pane: every workload's contenders with their samples, the comparison in words, and the conditions."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.performance import WorkloadPerformance
from cutegen_core.records.trial import Stage, Trial
from cutegen_core.records.wording import percent
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.sections import KINDS, SHAPES, render_section, render_sentences, rows_table
from pages.components.shared import data, marks, speed_charts
from pages.components.shared.texts import escape_html, heading, heard, note, quiet

_CONFIG = {"displayModeBar": False}


def render_timing(given: PaneInput) -> None:
    """Draw everything that was measured."""
    trial = given.trial
    workloads = trial.performance.workloads if trial.performance else ()
    if not workloads:
        _render_untimed(trial)
        return
    marks.render_explained(trial)
    if trial.cached:
        quiet("From the cache: measured when this kernel was first tried, against the best kernel of that time.")
    for workload in workloads:
        about = {s.topic: s for s in given.evidence.sections() if s.subject == workload.workload}
        _render_workload(trial, workload, about)


def _render_untimed(trial: Trial) -> None:
    failed = trial.failed_stage is Stage.BENCHMARK
    note("error" if failed else "info", f"The time was {views.untimed_text(trial)}.")
    if trial.executor == "cpu":
        quiet("The seconds of the other panes are the emulator's. Start a session on a machine with a GPU to time it.")


def _render_workload(trial: Trial, workload: WorkloadPerformance, about: dict[Topic, Section]) -> None:
    speed, speedups = about[Topic.SPEED], about.get(Topic.SPEEDUPS)
    heading(speed.title)
    believed = views.suspect(trial, workload) is None
    facts = [remark for remark in speed.remarks if remark.tone is Tone.PLAIN]
    st.html(_headline((*facts[:1], *(speedups.rows[:1] if speedups else ()), *facts[1:])))
    render_sentences(tuple(remark for remark in speed.remarks if remark.tone is Tone.BAD))
    figure = data.once(speed_charts.contenders, workload, believed=believed)
    heard("Chart of the medians with p10 and p90, above the samples; the numbers are in the table that follows.")
    st.plotly_chart(figure, key=f"timing-{workload.workload}", config=_CONFIG)
    st.html(rows_table(about[Topic.TIMES]))
    if speedups:
        st.html(rows_table(speedups, toned=3))
    render_sentences(tuple(remark for remark in speed.remarks if remark.tone in (Tone.ASIDE, Tone.DOUBTFUL)))
    quiet(
        f"A/A noise ±{percent(workload.aa_noise)}: a comparison of two equal kernels differs by as much here, drawn as "
        "the band. “Faster” and “slower” appear only where the 95 % interval lies outside it. Diamonds are medians "
        "with p10 and p90; below each the samples, downwards in the order taken."
    )
    render_section(about[Topic.CONDITIONS], toned=1)


def _headline(facts: tuple[Remark, ...]) -> str:
    """Write the time, the strongest baseline, the share of the bound and the rates in one line of HTML."""
    first, *others = (_toned(remark) for remark in facts)
    return f'<div class="cg-headline">{" <i>·</i> ".join([f"<b>{first}</b>", *others])}</div>'


def _toned(remark: Remark) -> str:
    text = escape_html(remark.text)
    return f'<span class="cg-{KINDS[remark.tone]}">{text}</span>' if remark.tone in SHAPES else text
