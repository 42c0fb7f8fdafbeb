"""The correctness pane: why a kernel is wrong or how it was proven, and the verdict of every run."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.evidence import Topic
from cutegen_core.records.trial import Comparison, ExecutorKind, Trial
from cutegen_core.records.wording import lowered
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.run_matrix import render_runs
from pages.components.session.evidence.sections import render_section, render_sentences
from pages.components.shared import charts, data
from pages.components.shared.texts import heard, note, quiet


def render_correctness(given: PaneInput) -> None:
    """Draw everything that the tests found."""
    trial, found = given.trial, given.evidence
    if trial.correctness is None:
        note("warning", f"Not tested: {trial.message or lowered(trial.status)}")
        return
    failed = trial.correctness.first_failure
    if failed is not None and not found.sections(Topic.OUTPUT, Topic.FINDINGS):
        note("error", f"{lowered(failed.status)}: {failed.message or trial.message}")
    compared = {comparison.output: comparison for comparison in failed.comparisons} if failed else {}
    for section in found.cause:
        render_section(section)
        if section.topic is Topic.OUTPUT:
            _render_where(compared[section.subject])
    for section in found.sections(Topic.PROOF):
        render_sentences(section.sentences)
    for section in found.sections(Topic.RUNS):
        render_runs(trial.correctness.verdicts, section)
    quiet(_explained(trial))


def _render_where(compared: Comparison) -> None:
    """Draw where an output is wrong."""
    if compared.heatmap and compared.total > 1:
        quiet(f"Share of wrong elements over the output, {list(compared.shape)} folded")
        figure = data.once(charts.heatmap, compared)
        heard(f"Picture of where elements are wrong. {compared.pattern}")
        st.plotly_chart(figure, key=f"heat-{compared.output}", config={"displayModeBar": False})


def _explained(trial: Trial) -> str:
    where = "the emulator, thread by thread" if trial.executor is ExecutorKind.CPU else "the GPU"
    return (
        f"Run on {where}. An instrumented run watches every access; plain runs differ in thread order and in what the "
        "output held before. The seconds are the test's, not the kernel's."
    )
