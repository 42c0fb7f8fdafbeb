"""The timing pane: every workload's contenders with their samples, the comparison in words, and the conditions."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.evaluate.evidence.speed import TONES
from cutegen_core.records.evidence import Section, Tone, Topic
from cutegen_core.records.performance import WorkloadPerformance
from cutegen_core.records.trial import ExecutorKind, Stage, Trial
from cutegen_core.records.wording import pace_against, percent
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.sections import render_section, render_sentences, rows_table, toned
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
    for section in given.evidence.sections(Topic.SHAPES):
        render_section(section, toned_column=2)
    for workload in workloads:
        about = {s.topic: s for s in given.evidence.sections() if s.subject == workload.workload}
        _render_workload(trial, workload, about)


def _render_untimed(trial: Trial) -> None:
    failed = trial.failed_stage is Stage.BENCHMARK
    note("error" if failed else "info", f"The time was {views.untimed_text(trial)}.")
    if trial.executor is ExecutorKind.CPU:
        quiet("The seconds of the other panes are the emulator's. Start a session on a machine with a GPU to time it.")


def _render_workload(trial: Trial, workload: WorkloadPerformance, about: dict[Topic, Section]) -> None:
    speed, speedups = about[Topic.SPEED], about.get(Topic.SPEEDUPS)
    heading(speed.title)
    believed = views.suspect(trial, workload) is None
    st.html(_headline(workload, [r.text for r in speed.remarks if r.tone is Tone.PLAIN], believed=believed))
    render_sentences(tuple(remark for remark in speed.remarks if remark.tone is Tone.BAD))
    figure = data.once(speed_charts.contenders, workload, believed=believed)
    heard("Chart of the medians with p10 and p90, above the samples; the numbers are in the table that follows.")
    st.plotly_chart(figure, key=f"timing-{workload.workload}", config=_CONFIG)
    st.html(rows_table(about[Topic.TIMES]))
    if speedups:
        st.html(rows_table(speedups, toned_column=3))
    render_sentences(tuple(remark for remark in speed.remarks if remark.tone in (Tone.ASIDE, Tone.DOUBTFUL)))
    quiet(
        f"A/A noise ±{percent(workload.aa_noise)}: a comparison of two equal kernels differs by as much here, drawn as "
        "the band. “Faster” and “slower” appear only where the 95 % interval lies outside it. Diamonds are medians "
        "with p10 and p90; below each the samples, downwards in the order taken."
    )
    render_section(about[Topic.CONDITIONS], toned_column=1)


def _headline(workload: WorkloadPerformance, facts: list[str], *, believed: bool) -> str:
    """Write the time, the strongest baseline, the share of the bound and the rates in one line of HTML."""
    first, *others = (escape_html(fact) for fact in facts)
    strongest = views.strongest(workload) if believed else None
    comparison = [toned(TONES[strongest.word], pace_against(strongest))] if strongest else []
    return f'<div class="cg-headline">{" <i>·</i> ".join([f"<b>{first}</b>", *comparison, *others])}</div>'
