"""A self-contained report of a session: timeline, and per step idea, plan, diff, verdict, evidence and resources.

Nothing in it reaches for the network: styles and the playback script are inline, a content policy forbids the rest, and
every text of a person or a model is escaped. It reads without scripts; with them, the arrow keys walk the steps.
"""

from __future__ import annotations

import difflib
import functools
import time
from typing import Any, NamedTuple

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from cutegen_core import __version__
from cutegen_core.exports import report_speed
from cutegen_core.exports.rendering import render
from cutegen_core.session_state import State
from cutegen_core.store import Store
from cutegen_core.trial import Comparison, Trial, WorkloadVerdict
from cutegen_core.views import CallView, SessionView, StepRow, StepView, profile_view, session_view, step_view

_LOG_CHARACTERS = 20_000
_FINDINGS = 20


class Bar(NamedTuple):
    """One bar of the latency chart, in percent of the slowest; None where nothing was measured."""

    number: int
    latency_us: float | None
    percent: float
    passed: bool


def report(store: Store, session: str) -> str:
    """The report; StoreError when there is no such session."""
    view = session_view(store, session)
    steps = [_step(store, row, step_view(store, session, row.number), view.state) for row in view.steps]
    return render(
        "report.html.jinja",
        view=view,
        settings=view.state.settings,
        state=view.state,
        steps=steps,
        bars=_bars(view),
        light=Markup(_styles("default", "")),
        dark=Markup(_styles("github-dark", "")),
        reference=_code(view.problem.source, "python"),
        version=__version__,
        moment=_moment,
    )


def _step(store: Store, row: StepRow, view: StepView, state: State) -> dict[str, Any]:
    language = _language(view.source)
    patch = "\n".join(
        difflib.unified_diff(view.base_source.splitlines(), view.source.splitlines(), "before", "after", lineterm="")
    )
    trial = view.trial
    return {
        "row": row,
        "step": view.step,
        "diff": _code(patch, "diff") if patch and view.base_source else None,
        "source": _code(view.source, language) if view.source else None,
        "calls": [_call(call) for call in view.calls],
        "trial": trial,
        "log": trial.log[:_LOG_CHARACTERS] if trial else "",
        "cut": bool(trial and len(trial.log) > _LOG_CHARACTERS),
        "failure": trial.correctness.first_failure if trial and trial.correctness else None,
        "evidence": _evidence(trial),
        "speeds": report_speed.speeds(trial),
        "profiled": report_speed.profiled(profile_view(store, state, view.step).profile),
        "best": row.candidate is not None and row.candidate == state.best,
    }


def _call(call: CallView) -> dict[str, Any]:
    answer = call.answer
    tokens = f"{answer.prompt_tokens} + {answer.completion_tokens} tokens" if answer and answer.prompt_tokens else ""
    words = [str(call.role), call.model, tokens, answer.error if answer else "the answer was lost"]
    return {"title": ", ".join(w for w in words if w), "prompt": call.prompt, "reply": call.reply or ""}


def _evidence(trial: Trial | None) -> list[str]:
    """What the failing run saw, one line each."""
    failure = trial.correctness.first_failure if trial and trial.correctness else None
    if failure is None:
        return []
    return [_run(failure), *(_comparison(c) for c in failure.comparisons if c.wrong), *_findings(failure)]


def _run(verdict: WorkloadVerdict) -> str:
    order = f", thread order {verdict.order}" if verdict.order else ""
    return f"workload {verdict.workload} ({verdict.mode}), seed {verdict.seed}{order}: {verdict.message}"


def _comparison(comparison: Comparison) -> str:
    first = "; ".join(f"{m.index}: got {m.got:.6g}, want {m.want:.6g}" for m in comparison.first[:5])
    pattern = f" {comparison.pattern}." if comparison.pattern else ""
    return (
        f"{comparison.output} {comparison.shape}: {comparison.wrong} of {comparison.total} elements wrong, "
        f"largest error {comparison.max_abs_error:.3g}.{pattern} {first}"
    )


def _findings(verdict: WorkloadVerdict) -> list[str]:
    return [f"{f.kind}: {f.message}{f' (line {f.line})' if f.line else ''}" for f in verdict.findings[:_FINDINGS]]


def _bars(view: SessionView) -> list[Bar]:
    slowest = max((row.latency_ms or 0.0 for row in view.steps), default=0.0)
    if not slowest:
        return []

    def bar(row: StepRow) -> Bar:
        took_us = None if row.latency_ms is None else 1000 * row.latency_ms
        return Bar(row.number, took_us, 100.0 * (row.latency_ms or 0.0) / slowest, row.status == "PASSED")

    return [bar(row) for row in view.steps]


def _language(source: str) -> str:
    return "python" if source.lstrip().startswith(("import ", "from ", '"""', "# ")) else "cuda"


@functools.cache
def _formatter(style: str) -> HtmlFormatter[str]:
    return HtmlFormatter(style=style, cssclass="code", nowrap=False)


def _styles(style: str, prefix: str) -> str:
    return str(_formatter(style).get_style_defs(f"{prefix}.code"))


def _code(text: str, language: str) -> Markup:
    """Highlighted and escaped by Pygments."""
    return Markup(highlight(text, get_lexer_by_name(language, stripnl=False), _formatter("default")))


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""
