"""Print for the command line: problems and sessions as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from cutegen_core import views
from cutegen_core.checking import json_text
from cutegen_core.problems import library
from cutegen_core.records import as_json
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store


def problem_json(entry: library.ProblemEntry) -> Mapping[str, Any]:
    if entry.problem is None:
        return {"name": entry.name, "path": str(entry.path), "error": entry.error}
    facts = {"name": entry.name, "path": entry.problem.origin}
    workloads = [{"name": w.name, "role": w.role, "sizes": dict(w.sizes)} for w in entry.problem.workloads]
    own = {"title": entry.problem.title, "workloads": workloads, "key": entry.problem.key}
    return facts | own | {"existing": bool(entry.problem.existing)}


def session_json(store: Store, session: str) -> Mapping[str, Any]:
    view = views.session_view(store, session)
    best = view.state.best_step
    last = view.state.acceptance
    tried = last if last and last.candidate == view.state.best else best.verdict if best else None
    return {
        "session": session,
        "problem": view.state.settings.problem_name,
        "state": view.state.status,
        "reason": view.state.reason,
        "steps": [
            row._asdict() | {"warnings": views.warnings_of(step)} | _answers(step) | _candidates(view.state, step)
            for row, step in zip(view.steps, view.state.steps, strict=True)
        ],
        "suites": [as_json.to_plain(suite) for suite in view.state.suites],
        "tokens": view.state.tokens,
        "paid": views.price(view.state)._asdict() | {"money": view.state.cost},
        "minutes": view.state.worked_s / 60,
        "spent": view.state.spent,
        "best": {
            "candidate": view.state.best,
            "idea": best.idea if best else "",
            "status": tried.status if tried else None,
            "trial": as_json.to_plain(store.record(Trial, tried.trial)) if tried and tried.trial else None,
        }
        if view.state.best
        else None,
    }


def _answers(step: Step) -> dict[str, Any]:
    """Return who answered which role in a step, and which answers do not count."""
    given = [(call, call.answer) for call in step.calls if call.answer]
    return {"answers": [{"role": call.role, "by": answer.by, "dropped": call.dropped} for call, answer in given]}


def _candidates(state: State, step: Step) -> dict[str, Any]:
    """Return what came of each candidate of a step that has several."""
    return {"candidates": [row._asdict() for row in views.alternatives(state, step)]} if step.alternatives else {}


def print_json(value: object) -> None:
    """Print strict JSON."""
    sys.stdout.write(json_text(value) + os.linesep)
