"""Collect what the compiler, the checker and the profiler say about the lines of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core import views
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session.evidence import profile_pane
from pages.components.shared.code_tables import Notes


def notes(store: Store, view: SessionView, shown: StepView) -> Notes:
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
