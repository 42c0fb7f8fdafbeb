"""The correctness pane: the verdict of every run, and for the first wrong one where, how much and in what pattern."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core.records.trial import Comparison, Correctness, Finding, Status, Trial, WorkloadVerdict
from cutegen_core.records.wording import lowered
from pages.components.shared import charts, data
from pages.components.shared.texts import Html, escape_html, heading, heard, note, quiet, table


def render_correctness(trial: Trial) -> None:
    """Everything the TEST stage saw."""
    if trial.correctness is None:
        note("warning", f"Not tested: {trial.message or lowered(trial.status)}")
        return
    failed = trial.correctness.first_failure
    if failed is None:
        runs = trial.correctness.verdicts
        note("ok", f"Right in all {len(runs)} runs on {len({r.workload for r in runs})} workloads.")
    else:
        _failure(trial, failed)
    heading("Every run")
    st.html(_runs(trial.correctness))
    quiet(_explained(trial.correctness))


def _failure(trial: Trial, failed: WorkloadVerdict) -> None:
    note("error", f"{lowered(failed.status)}: {failed.message or trial.message}")
    if failed.findings:
        heading("What the checker saw")
        st.html(_findings(failed.findings))
    for comparison in failed.comparisons:
        if comparison.wrong:
            _comparison(failed, comparison)


def _comparison(failed: WorkloadVerdict, comparison: Comparison) -> None:
    share = comparison.wrong / max(1, comparison.total)
    counted = f"{comparison.wrong} of {comparison.total} wrong ({share:.1%})"
    heading(f"{comparison.output} of workload {failed.workload}: {counted}")
    if comparison.pattern:
        st.html(f'<div class="cg-pattern">{escape_html(comparison.pattern)}</div>')
    st.html(
        table(("index", "got", "want"), [(list(m.index), f"{m.got:.7g}", f"{m.want:.7g}") for m in comparison.first])
    )
    if comparison.heatmap:
        quiet(f"Share of wrong elements over the output, {list(comparison.shape)} folded")
        figure = data.once(charts.heatmap, comparison)
        heard(f"Picture of where elements are wrong. {comparison.pattern}")
        st.plotly_chart(figure, key=f"heat-{comparison.output}", config={"displayModeBar": False})
    numbers = {
        "NaN": comparison.nan, "Inf": comparison.inf, "never written": comparison.poison,
        "largest error": f"{comparison.max_abs_error:.3g}", "of what is allowed": f"{comparison.error_ratio:.3g} x",
        "the reference's own error": f"{comparison.reference_error:.2g}",
    }  # fmt: skip
    quiet(" · ".join(f"{name} {value}" for name, value in numbers.items()))


def _findings(findings: Sequence[Finding]) -> str:
    rows: list[tuple[object, ...]] = [
        (f.kind, f.variable or "-", f.line or "-", _place(f.block), _place(f.thread), f.message) for f in findings[:20]
    ]
    return table(("kind", "variable", "line", "block", "thread", "what"), rows, numbers_from=9)


def _place(coordinates: tuple[int, int, int] | None) -> str:
    return "(" + ", ".join(map(str, coordinates)) + ")" if coordinates else "-"


def _runs(correctness: Correctness) -> str:
    rows: list[tuple[object, ...]] = []
    for run in correctness.verdicts:
        ratio = max((c.error_ratio for c in run.comparisons), default=None)
        passed = run.status is Status.PASSED
        shape, kind = ("✓", "passed") if passed else ("✗", "failed")
        verdict = Html(f'<span class="cg-{kind}">{shape} {escape_html(lowered(run.status))}</span>')
        rows.append(
            (verdict, run.workload, f"{run.mode} {run.order}".strip(), "" if ratio is None else f"{ratio:.3g}",
             run.seed, f"{run.seconds:.2f}")
        )  # fmt: skip
    return table(("verdict", "workload", "run", "error / allowed", "seed", "s"), rows, numbers_from=3)


def _explained(correctness: Correctness) -> str:
    where = "the emulator, thread by thread" if correctness.executor == "cpu" else "the GPU"
    return (
        f"Run on {where}. A checked run watches every access; plain runs differ in thread order and in what the output "
        "held before. The seconds are the emulator's, not the kernel's."
    )
