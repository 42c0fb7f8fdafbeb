"""Draw a tile each for how B differs from A in source, time, resources and machine code."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import listed, micros
from cutegen_core.views import Delta
from cutegen_core.views.code_text import diff
from pages.components.compare_present import versus
from pages.components.compare_present.sides import Side
from pages.components.session.evidence.resources import change, number
from pages.components.shared.texts import escape_html

_MOST_LINES = 3


def render_tiles(a: Side, b: Side) -> None:
    """Draw the tiles: the result in a word or a number, and the details below it."""
    one, other = a.step.trial, b.step.trial
    tiles = [
        _source(a.step.source, b.step.source), _time(one, other), _resources(one, other), _machine_code(one, other),
    ]  # fmt: skip
    st.html(f'<div class="cg-tiles">{"".join(tiles)}</div>')


def _tile(name: str, answer: str, lines: Sequence[str]) -> str:
    """Write a tile as HTML; the arguments are HTML."""
    below = "".join(f"<div>{line}</div>" for line in lines)
    return f'<section class="cg-tile"><h2 class="cg-heading">{name}</h2><b>{answer}</b>{below}</section>'


def _source(a: str, b: str) -> str:
    found = diff.summary(a, b)
    if found == (0, 0):
        return _tile("Source", "= identical", [])
    return _tile("Source", f"+{found.added} −{found.removed} lines", [f"{len(b.splitlines())} lines in B"])


def _time(a: Trial | None, b: Trial | None) -> str:
    found = [(one, one.speedup) for one in versus.compared(a, b) if one.speedup]
    if not found:
        return _tile("Time", "– not comparable", [_why_not(a, b)])
    lines = [
        f"{escape_html(one.a.workload)}: {micros(one.a.candidate.median_us)} → {micros(one.b.candidate.median_us)}, "
        f"speedup {speedup.low:.3f} to {speedup.high:.3f}"
        for one, speedup in found
    ]
    timed = [one for one, _ in found]
    whole, slower = versus.mean(timed), versus.slower_on(timed)
    assert whole is not None
    if len(timed) > 1:
        regressed = f"; regressed on {escape_html(listed(slower))}" if slower else ""
        lines = [f"geometric mean of {len(timed)} workloads{regressed}", *lines]
    return _tile("Time", versus.verdict(whole), lines)


def _why_not(a: Trial | None, b: Trial | None) -> str:
    if versus.is_suspect(a, b):
        return "a time is SUSPECT and does not count"
    timed = [name for name, trial in (("A", a), ("B", b)) if trial and trial.performance]
    return (
        f"only {timed[0]} was timed" if len(timed) == 1 else "no workload in common" if timed else "neither was timed"
    )


def _resources(a: Trial | None, b: Trial | None) -> str:
    rows = [row for row in views.compare(a, b) if "SASS" not in row.name and row.name != "compile"]
    if not rows:
        return _tile("Resources", "– not compiled", [])
    changed = [row for row in rows if row.left != row.right]
    if not changed:
        return _tile("Resources", "= no change", [f"{len(rows)} unchanged numbers"])
    more = len(changed) - _MOST_LINES
    lines = [_line(row) for row in changed[1 : 1 + _MOST_LINES]] + ([f"and {more - 1} more"] if more > 1 else [])
    return _tile("Resources", _line(changed[0]), lines)


def _machine_code(a: Trial | None, b: Trial | None) -> str:
    left, right = views.instruction_mix(a), views.instruction_mix(b)
    if not left or not right:
        return _tile("Machine code", "– not compiled", [])
    rows = mix_deltas(a, b)
    total = Delta("instructions", "", sum(left.values()), sum(right.values()))
    changed = [row for row in rows if row.left != row.right]
    return _tile("Machine code", _line(total), [_line(row) for row in changed[:_MOST_LINES]] or ["no class changed"])


def mix_deltas(a: Trial | None, b: Trial | None) -> list[Delta]:
    """Compare the instructions by class, largest change first."""
    left, right = views.instruction_mix(a), views.instruction_mix(b)
    rows = [Delta(name, "", left.get(name, 0), right.get(name, 0)) for name in dict.fromkeys([*left, *right])]
    return sorted(rows, key=lambda row: (-abs((row.right or 0) - (row.left or 0)), row.name))


def _line(row: Delta) -> str:
    unit = f" {escape_html(row.unit)}" if row.unit else ""
    return f"{escape_html(row.name)} {number(row.left)} → {number(row.right)}{unit} {change(row)}"
