"""Suggest instructions for a Redirect from what is known of the shown step."""

from __future__ import annotations

import re

from cutegen_core.records.candidate import Author
from cutegen_core.records.performance import KernelProfile, Profile
from cutegen_core.records.trial import Occupancy, Status, Trial
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.profiles import profile_view
from cutegen_core.views.session import SessionView, StepView

CONFLICTS, USED_BYTES, HOT = 10.0, 16.0, 0.3
"""From here on: per cent of cycles, bytes of 32, and a line's share of the samples are worth an instruction."""
FEW_WAVES, TAIL = 4.0, 0.3


def chips(store: Store, view: SessionView, shown: StepView | None) -> tuple[str, ...]:
    """Return at most five instructions for a Redirect: the playbook's other kernels by name, since it knows no other
    words, else what the evidence of the shown step suggests."""
    menu = _menu(view.state)
    if menu:
        return menu[:5]
    trial = shown.trial if shown else None
    profile = profile_view(store, view.state, shown.step).profile if shown else None
    found = [*_from_failure(trial), *_from_profile(profile), *_from_resources(trial)]
    best = view.state.best_step
    if trial and not trial.passed and best and shown and best.number != shown.step.number:
        found.append(f"start again from step {best.number}")
    return tuple(dict.fromkeys(found))[:5]


def _menu(state: State) -> tuple[str, ...]:
    """Return the kernels that the playbook names in its last plan, without the one that plan is about."""
    plans = (step.plan for step in reversed(state.steps) if step.author is Author.PLAYBOOK)
    found = re.search(r"^(?:Idea: )?(\w[^:\n]*):.*\nMenu: (.+)\.$", next(plans, ""), re.MULTILINE)
    return tuple(name for name in found[2].split(" -> ") if name != found[1]) if found else ()


def _from_failure(trial: Trial | None) -> list[str]:
    if trial is None or trial.passed:
        return []
    words: list[str] = []
    if trial.status in (Status.COMPILE_ERROR, Status.REJECTED, Status.LAUNCH_ERROR) and trial.diagnostics:
        first = trial.diagnostics[0]
        words.append(f"fix line {first.line}: {first.message}"[:90] if first.line else f"fix: {first.message}"[:90])
    failed = trial.correctness.first_failure if trial.correctness else None
    for finding in failed.findings[:1] if failed else ():
        words.append(f"{finding.kind} on {finding.variable or 'memory'} at line {finding.line}: fix it"[:90])
    for comparison in failed.comparisons[:1] if failed else ():
        if comparison.pattern:
            words.append(f"{comparison.pattern}: fix it"[:90])
    return words


def _from_profile(profile: Profile | None) -> list[str]:
    """Return what the profile suggests, worst first in the launch that takes longest."""
    if profile is None:
        return []
    kernel = max(profile.kernels, key=lambda k: _value(k, "duration"))
    words = []
    if (lost := _value(kernel, "shared memory cycles lost to bank conflicts")) > CONFLICTS:
        words.append(f"bank conflicts cost {lost:.0f} % of shared memory cycles: add a swizzle or padding")
    for direction in ("loads", "stores"):
        used = _value(kernel, f"bytes used per 32 B sector, {direction}")
        if 0 < used < USED_BYTES:
            words.append(f"{direction} use {used:.0f} bytes per 32 B sector: coalesce the accesses")
    hottest = max(kernel.lines, key=lambda line: line.samples, default=None)
    total = sum(line.samples for line in kernel.lines)
    if hottest and hottest.stall and hottest.samples > HOT * total:
        share = 100 * hottest.samples / total
        words.append(
            f"line {hottest.line} takes {share:.0f} % of the samples, stalled on {hottest.stall}: reduce that stall"
        )
    return words


def _value(kernel: KernelProfile, name: str) -> float:
    metric = kernel.metric(name)
    return metric.value if metric else 0.0


def _from_resources(trial: Trial | None) -> list[str]:
    resources = trial.resources if trial else None
    if resources is None:
        return []
    words = (
        [f"spills {resources.spill_bytes} B: use fewer registers or a smaller tile"] if resources.spill_bytes else []
    )
    rows = [row for row in resources.occupancy if row.occupancy < 0.5 and row.waves >= 1]
    if rows:
        row = min(rows, key=lambda r: r.occupancy)
        words.append(f"occupancy {100 * row.occupancy:.0f} %, limited by {row.limiter}: raise it")
    largest = max(resources.occupancy, key=lambda r: r.waves, default=None)
    if largest and _has_tail(largest):
        words.append(f"{largest.waves:.1f} waves: the last leaves SMs idle; try a persistent grid or another tile size")
    return words


def _has_tail(row: Occupancy) -> bool:
    """Return whether the blocks exceed a whole number of waves by few, with few waves to hide the rest in."""
    return 1 < row.waves < FEW_WAVES and 0 < row.waves % 1 < TAIL
