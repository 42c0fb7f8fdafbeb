"""Print for the command line: trials and their stages for a reader, problems and sessions as JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from cutegen_core import views
from cutegen_core.evaluate.evidence import plain_text
from cutegen_core.evaluate.evidence.verdict import evidence
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.problems import library
from cutegen_core.records import as_json
from cutegen_core.records.evidence import Topic
from cutegen_core.records.trial import Stage, StageResult, Trial
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Store

_ROWS, _NOTES = 10, 1
_UNPRINTED = (Topic.RUNS, Topic.OCCUPANCY, Topic.CONDITIONS)
"""Details that `--json` and the pages show."""


class Narrator(SilentWatch):
    """Prints the stages of a trial on stderr as they happen."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def ended(self, result: StageResult) -> None:
        if not self._quiet and result.stage is not Stage.PROFILE:
            print(
                f"{result.stage.lower():10} {result.status:8} {result.seconds:6.2f} s  {result.note}", file=sys.stderr
            )


def print_trial(trial: Trial) -> None:
    """Print the verdict and what it rests on."""
    found = evidence(trial)
    print(found.headline)
    sections = (section.clipped(_ROWS, _NOTES) for section in found.sections() if section.topic not in _UNPRINTED)
    print(textwrap.indent(plain_text.text(sections), "  "))


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
        "steps": [row._asdict() | _answers(step) for row, step in zip(view.steps, view.state.steps, strict=True)],
        "suites": [as_json.to_plain(suite) for suite in view.state.suites],
        "tokens": view.state.tokens,
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


def print_json(value: object) -> None:
    """Print strict JSON: NaN and infinities, which wrong kernels produce, become strings."""
    json.dump(_strict(value), sys.stdout, allow_nan=False)
    sys.stdout.write(os.linesep)


def _strict(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list | tuple) else value
