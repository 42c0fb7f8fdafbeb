"""Draw the runs of a trial as a small matrix, workload x run; the failing one is open, the others unfold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from cutegen_core.evaluate.evidence.failure import mode_text, run_text
from cutegen_core.records.evidence import Section
from cutegen_core.records.trial import Status, WorkloadVerdict
from cutegen_core.records.wording import counted, lowered, percent
from pages.components.session.evidence.sections import rows_table
from pages.components.shared.texts import Html, escape_html, heading, table, tooltip

_ERROR = "error / tolerance"
_NOTHING, _MANY = 1e-4, 1_000_000


def render_runs(runs: Sequence[WorkloadVerdict], every: Section) -> None:
    """Draw the matrix; below it, folded, the table of every run with its seed and time."""
    passed = sum(run.status is Status.PASSED for run in runs)
    by_workload = _matrix(runs)
    kinds = tuple(dict.fromkeys(kind for row in by_workload.values() for kind in row))
    heading(f"{passed} of {counted(len(runs), 'run')} correct")
    rows = [
        (name, *(_cell(row.get(kind)) for kind in kinds), _error(row.values())) for name, row in by_workload.items()
    ]
    st.html(f'<div class="cg-matrix">{table(("workload", *kinds, _ERROR), [*rows])}</div>')
    folded = rows_table(every, toned_column=0)
    st.html(f'<details class="cg-folded"><summary>Seed, error and time of every run</summary>{folded}</details>')


def _matrix(runs: Sequence[WorkloadVerdict]) -> Mapping[str, Mapping[str, WorkloadVerdict]]:
    """Sort the runs by workload and kind; a kind that a workload ran again is numbered."""
    found: dict[str, dict[str, WorkloadVerdict]] = {}
    for run in runs:
        row, kind = found.setdefault(run.workload, {}), _kind(run)
        again = sum(name.split(" (")[0] == kind for name in row)
        row[f"{kind} ({again + 1})" if again else kind] = run
    return found


def _kind(run: WorkloadVerdict) -> str:
    """Name a kind of run in a word: plain runs by their thread order, where they have one."""
    return run.order if run.mode == "plain" and run.order else mode_text(run)


def _cell(run: WorkloadVerdict | None) -> Html:
    if run is None:
        return Html('<span class="cg-quietly" title="not run">–</span>')
    said = tooltip(f"{run_text(run)}: {lowered(run.status)}, {run.seconds:.2f} s")
    if run.status is Status.PASSED:
        return Html(f'<span class="cg-passed" title="{said}">✓</span>')
    return Html(f'<span class="cg-failed" title="{said}">✗ {escape_html(lowered(run.status))}</span>')


def _error(runs: Iterable[WorkloadVerdict]) -> str:
    """Write the largest error of a workload's runs: "4.3 %", or "812x" the tolerance; "" where none was compared."""
    ratios = [compared.error_ratio for run in runs for compared in run.comparisons]
    if not ratios:
        return ""
    largest = max(ratios)
    if largest > 1:
        return f"{largest:.3g}x" if largest < _MANY else f"> {_MANY:,}x"
    return percent(largest) if largest > _NOTHING else "0 %"
