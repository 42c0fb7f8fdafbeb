"""Draw the line at the top of a session: problem, state, target, proposer, progress and best time."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind
from cutegen_core.records.event import AnsweredBy, SessionSettings, SessionState
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import counted, factor_words, lowered, micros, pace, percent, ratio
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, gnn
from pages.components.session.export_menu import render_export
from pages.components.session.keys import render_keys
from pages.components.shared import places, ui_state
from pages.components.shared.texts import chip, escape_html, tooltip

READ_ONLY_MARK = "⊘"
_EXECUTORS = {ExecutorKind.CPU: "emulator", ExecutorKind.GPU: "GPU"}

_SHAPES = {
    SessionState.READY: "○", SessionState.RUNNING: "●", SessionState.AWAITING_REVIEW: "◆", SessionState.STOPPED: "■",
    SessionState.EXHAUSTED: "▲", SessionState.INTERRUPTED: "▲", SessionState.ACCEPTED: "✓",
}  # fmt: skip


def render_header(store: Store, view: SessionView) -> None:
    """Draw the facts, and to their right the autonomy switch, the list of keys and the export menu."""
    facts, switch, keys, menu = st.columns([6.6, 1.05, 0.6, 0.75], vertical_alignment="center")
    with facts:
        speed = _speed(store, view)
        st.html(f'<div class="cg-header">{_facts(view, speed)}</div>')
    with switch:
        _autonomy(view)
    with keys:
        render_keys()
    with menu:
        render_export(store, view)
    if kernel := gnn.plugs_in(view.id, view.state):
        st.page_link(places.gnn(), label="Try it in an epoch", query_params={"aggregate": kernel})


def _facts(view: SessionView, speed: str) -> str:
    """Write the facts as HTML: state and best kernel first, then where and how it runs."""
    settings, state = view.state.settings, view.state
    best = state.best_step
    parts = [
        f'<h1 title="{tooltip(view.problem.title)}">{escape_html(settings.problem_name)}</h1>',
        chip(f"{_SHAPES[state.status]} {lowered(state.status)}", f"state-{state.status.lower()}", state.reason),
        chip(f"{READ_ONLY_MARK} read-only: {settings.origin}", "warning") if settings.imported else "",
        speed or _fact("best", _best(view), best.idea if best else ""),
        _fact("runs on", _target(settings), settings.device_name),
        _fact("proposer", _proposer(view)),
        _fact("steps", f"{state.spent_steps} of {state.max_steps}"),
        _tokens(view),
        _money(state),
        _minutes(state),
    ]
    return "".join(parts)


def _target(settings: SessionSettings) -> str:
    where = _EXECUTORS.get(settings.executor, str(settings.executor))
    return f"{where}, {settings.arch}" if settings.arch else where


def _best(view: SessionView) -> str:
    step = view.state.best_step
    return f"step {step.number} ★" if step else "none yet"


def _speed(store: Store, view: SessionView) -> str:
    """Write the best kernel's time, against the strongest baseline and the session's first timed kernel."""
    rows = views.speed_rows(store, view.state)
    step = view.state.best_step
    best = next((row for row in rows if step and row.step == step.number), None)
    if best is None:
        return ""
    took = f"{_best(view)} {micros(best.latency_us)} ±{percent(best.noise)}"
    spread = f"p10 {best.p10_us:.4g} µs, p90 {best.p90_us:.4g} µs; A/A noise ±{percent(best.noise)}"
    shapes = view.steps[best.step - 1].shapes
    if shapes:
        took, spread = f"{took} over {len(shapes)} shapes", f"geometric mean; {spread}"
    bound = f"; {best.share.words}, which takes {micros(best.share.bound.us)}" if best.share else ""
    parts = [_fact("best", took, f"{spread}{bound}")]
    if best.against:
        speedup = best.against
        interval = f"speedup {ratio(speedup.ratio)}, 95 % interval {speedup.low:.4g} to {speedup.high:.4g}"
        parts.append(_fact(f"vs {speedup.baseline}", pace(speedup), f"{interval}; the fastest baseline"))
    if rows[0].step != best.step:
        parts.append(_fact(f"vs step {rows[0].step}", factor_words(rows[0].latency_us / best.latency_us),
                           f"step {rows[0].step} took {micros(rows[0].latency_us)}"))  # fmt: skip
    return "".join(parts)


def _proposer(view: SessionView) -> str:
    settings = view.state.settings
    return f"{settings.answered_by}: {settings.model}" if settings.model else settings.answered_by


def _tokens(view: SessionView) -> str:
    """Write the tokens used, and those that a running call has reserved."""
    state = view.state
    if state.settings.answered_by is not AnsweredBy.LLM and not state.tokens:
        return ""
    of = f" of {state.max_tokens:,}" if state.max_tokens is not None else ""
    reserved = state.open_step.calls[-1].reserved_tokens if state.lost_call and state.open_step else 0
    title = f"{reserved:,} of them reserved for the running call" if reserved else "prompts and replies"
    paid = views.price(state).words
    title = f"{title}; {paid}" if paid else title
    return _fact("tokens", f"{state.tokens:,}{of}{' (reserved)' if reserved else ''}", title) + _each(state)


def _money(state: State) -> str:
    """Write what the calls cost, where the models have prices."""
    if state.cost is None and state.max_cost is None:
        return ""
    of = f" of {state.max_cost:g}" if state.max_cost is not None else ""
    unknown = sum(call.cost is None for step in state.steps for call in step.calls if call.model)
    without = f"; {counted(unknown, 'call')} without a known price not included" if unknown else ""
    return _fact("money", f"{state.cost or 0:.4g}{of}", f"in the currency of the models' prices{without}")


def _minutes(state: State) -> str:
    """Write how long the session has worked, where that is limited."""
    if state.max_minutes is None:
        return ""
    worked = f"{state.worked_s / 60:.1f} of {state.max_minutes:g} min"
    return _fact("worked", worked, "while it works; the time in which it waits for you does not count")


def _each(state: State) -> str:
    """Write what a promoted kernel cost, once there is one."""
    paid = views.price(state)
    if not paid.promoted or not paid.calls:
        return ""
    return _fact("per promoted kernel", paid.each(), paid.words)


def _fact(name: str, value: str, title: str = "") -> str:
    return f'<span class="cg-fact" title="{tooltip(title)}"><i>{escape_html(name)}</i> {escape_html(value)}</span>'


def _autonomy(view: SessionView) -> None:
    words = views.autonomy_words()
    drawn = ui_state.chosen_autonomy(view.id) or view.state.autonomy
    key = ui_state.showing(f"autonomy-{view.id}", drawn)
    st.selectbox(
        "Autonomy",
        list(Autonomy),
        list(Autonomy).index(drawn),
        key=key,
        format_func=str,
        help="How far the session runs by itself: " + "; ".join(f"{mode}: {text}" for mode, text in words.items()),
        label_visibility="collapsed",
        on_change=ui_state.noted(_switched, view.id, key),
        disabled=view.state.status is SessionState.ACCEPTED or view.state.settings.imported,
    )


def _switched(session: str, key: str) -> None:
    chosen = Autonomy(ui_state.text(key))
    ui_state.choose(session, lambda _: Decision(DecisionKind.AUTONOMY, autonomy=chosen))
