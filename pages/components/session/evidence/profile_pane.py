"""The profile pane: the profiler's metrics against the parent's, its advice, and the lines that cost most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind, StudyKind
from cutegen_core.records.evidence import Section, Tone, Topic
from cutegen_core.records.performance import KernelProfile, LineCost, Profile
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import sized
from cutegen_core.trajectory.store import Store
from cutegen_core.views import ProfileDelta, SessionView, StepView, profile_deltas
from cutegen_core.views.code_text import highlight
from pages.components.session.evidence.pane import PaneInput
from pages.components.shared import ui_state
from pages.components.shared.code_tables import Heat
from pages.components.shared.texts import Html, escape_html, heading, note, quiet, show_hidden, table

HOTTEST = 12


def render_profile(given: PaneInput) -> None:
    """Draw the profile against the parent's; without one, say why, or offer to take one."""
    view, shown = given.view, given.tried
    found = views.profile_view(given.store, view.state, shown.step)
    if found.message:
        note("warning", found.message)
    if found.profile is None:
        _render_missing(view, shown)
        return
    profile, parent = found.profile, _parents_profile(given.store, view, shown)
    quiet(
        f"{profile.tool}, workload {profile.workload}{'' if parent else '; the parent has no profile to compare with'}"
    )
    index = _choose(shown, profile)
    section = given.evidence.sections(Topic.PROFILE)[index]
    _render_launch(shown, section, profile.kernels[index], profile_deltas(parent, profile, index))
    _ask(view, shown, "Profile again")


def _parents_profile(store: Store, view: SessionView, shown: StepView) -> Profile | None:
    parent = shown.step.parent or shown.step.base
    step = view.state.step_of(parent) if parent and parent != shown.step.candidate else None
    return views.profile_view(store, view.state, step).profile if step else None


def _choose(shown: StepView, profile: Profile) -> int:
    """Draw the choice of a launch and return its number; a plan may launch one kernel several times."""
    if len(profile.kernels) == 1:
        return 0
    return st.selectbox(
        "Kernel", range(len(profile.kernels)), key=f"profile-kernel-{shown.step.number}", label_visibility="collapsed",
        format_func=lambda i: show_hidden(f"launch {i + 1}: {profile.kernels[i].kernel}"),
    )  # fmt: skip


def heat(profile: Profile | None) -> Mapping[int, Heat]:
    """Count the samples by line over all kernels, for the gutter of the source."""
    costs = [line for kernel in profile.kernels for line in kernel.lines] if profile else []
    total = sum(cost.samples for cost in costs)
    by_line: dict[int, list[LineCost]] = {}
    for cost in costs:
        by_line.setdefault(cost.line, []).append(cost)
    return {line: _heat(found, total) for line, found in by_line.items() if line and total}


def _heat(costs: Sequence[LineCost], total: int) -> Heat:
    samples = sum(cost.samples for cost in costs)
    stall = max(costs, key=lambda cost: cost.samples).stall
    waiting = f", mostly waiting: {stall}" if stall else ""
    return Heat(samples / total, f"{samples} of {total} warp samples{waiting}")


def _render_missing(view: SessionView, shown: StepView) -> None:
    if view.state.settings.executor is not ExecutorKind.GPU:
        note("info", "No profile: profiling needs a GPU.")
    elif not shown.step.passed:
        note("info", "No profile: only a kernel that passed its tests is profiled.")
    elif view.state.wants_study(StudyKind.PROFILE, shown.step.candidate):
        note("info", "Requested: the profiler runs as soon as the device is free.")
    else:
        others = _profiled(view)
        elsewhere = f" Profiled: {', '.join(f'step {number}' for number in others)}." if others else ""
        note("info", f"Not profiled: the profiler runs a kernel many times, so it runs only on request.{elsewhere}")
        _ask(view, shown, "Profile this kernel")


def _profiled(view: SessionView) -> list[int]:
    """Return the steps that were profiled on request."""
    studies = view.state.studies.items()
    found = (view.state.step_of(wanted.candidate) for wanted, done in studies
             if wanted.study is StudyKind.PROFILE and done.result)  # fmt: skip
    return sorted(step.number for step in found if step)


def _ask(view: SessionView, shown: StepView, label: str) -> None:
    settings, candidate = view.state.settings, shown.step.candidate
    if settings.executor is ExecutorKind.GPU and shown.step.passed and not settings.imported:
        st.button(
            label, key="profile-ask", shortcut="P",
            on_click=ui_state.noted(
                ui_state.choose, view.id,
                lambda _: Decision(DecisionKind.STUDY, candidate=candidate, study=StudyKind.PROFILE),
            ),
        )  # fmt: skip


def _render_launch(shown: StepView, section: Section, kernel: KernelProfile, rows: Sequence[ProfileDelta]) -> None:
    """Draw the metrics against the parent's, the lines that cost most, and the profiler's advice."""
    heading(kernel.kernel, is_code=True)
    body: list[tuple[object, ...]] = [
        (f"{row.name}, {row.unit}" if row.unit else row.name, "-" if row.before is None else sized(row.before),
         sized(row.value), _change(row))
        for row in rows
    ]  # fmt: skip
    st.html(table(("metric", "parent", "this", "change"), body))
    if kernel.lines:
        heading("Hottest lines")
        st.html(_hottest(shown.source, kernel.lines))
    advice = [remark.text for remark in section.sentences if remark.tone is Tone.ASIDE]
    heading("The profiler's advice")
    st.html("".join(f'<div class="cg-advice">→ {escape_html(text)}</div>' for text in advice))


def _hottest(source: str, lines: Sequence[LineCost]) -> str:
    code = highlight.lines(source)
    total = sum(line.samples for line in lines) or 1
    rows: list[tuple[object, ...]] = []
    for cost in sorted(lines, key=lambda line: -line.samples)[:HOTTEST]:
        text = highlight.without_indent(code[cost.line - 1]) if 0 < cost.line <= len(code) else ""
        link = Html(f'<a class="cg-to-line" href="#L{cost.line}">{cost.line}</a>')
        bar = f'<span class="cg-bar" style="--share:{100 * cost.samples / total:.0f}%">{cost.samples}</span>'
        rows.append((link, Html(bar), cost.stall or "-", Html(f'<code class="cg-line-of">{text}</code>')))
    return table(("line", "samples", "mostly waiting for", "source"), rows, numbers_from=9)


def _change(row: ProfileDelta) -> str:
    if row.before is None:
        return ""
    change = row.value - row.before
    if abs(change) <= 1e-9 * max(1.0, abs(row.before)):
        return "="
    shape = "▲ +" if change > 0 else "▼ −"
    relative = f" ({100 * change / abs(row.before):+.2g} %)" if row.before and row.unit != "%" else ""
    return f"{shape}{sized(abs(change))}{relative}"
