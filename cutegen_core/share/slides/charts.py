"""Draw the pictures of a slide: the best so far over the steps, the contenders of a timing, where an output is wrong.

A chart over the steps has the same axes on every slide and grows to the slide's step, so that nothing jumps while one
walks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.records.event import Outcome
from cutegen_core.records.performance import CANDIDATE, WorkloadPerformance
from cutegen_core.records.trial import Comparison, Status
from cutegen_core.records.wording import called, lowered, micros, pace
from cutegen_core.share.slides import svg
from cutegen_core.share.slides.svg import Picture
from cutegen_core.views import SpeedRow, StepRow

LOG_FROM = 8.0
"""Values further apart than this are drawn on a logarithmic axis."""
_WIDTH, _HEIGHT = 520, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 506, 34, 226
_MOST_TICKS, _MANY_DECADES, _MANY_POINTS = 14, 4, 24


class _ChartPoint(NamedTuple):
    """A step of the chart; `value` is None without a number, `best` the best so far."""

    step: int
    passed: bool
    value: float | None
    best: float | None


class _Scale(NamedTuple):
    """Maps values to heights and steps to widths."""

    low: float
    high: float
    log: bool
    first: int
    last: int

    def y(self, value: float) -> float:
        at, low, high = (math.log10(v) if self.log else v for v in (value, self.low, self.high))
        return _BOTTOM - (at - low) / (high - low or 1.0) * (_BOTTOM - _TOP)

    def x(self, step: int) -> float:
        return _LEFT + 16 + (step - self.first) / max(1, self.last - self.first) * (_RIGHT - _LEFT - 32)


# ---- over the steps


def progress(rows: Sequence[StepRow], speeds: Sequence[SpeedRow], upto: int) -> Picture | None:
    """Draw the metric over the steps up to step `upto`: latency if kernels were timed, else registers."""
    points = _timed(rows, speeds) if speeds else _compiled(rows)
    values = [p.value for p in points if p.value is not None]
    if not values:
        return None
    targets = _targets(speeds)
    scale = _scale([*values, *targets.values()], points)
    what = "latency" if speeds else "registers a thread; nothing is timed here"
    shown = [p for p in points if p.step <= upto]
    body = [svg.text(2, 14, f"{what}{', logarithmic' if scale.log else ''}", "ch-title")]
    body += _grid(scale, points, timed=bool(speeds))
    lowest = min(targets.values(), default=0.0)
    reach = [_target(scale, name, us, below=us == lowest) for name, us in targets.items()]
    body += [*(line for line, _ in reach), *_stairs(scale, shown), *(words for _, words in reach)]
    body += _shapes(scale, shown, upto)
    best = next((p.best for p in reversed(shown) if p.best is not None), None)
    called = "best kernel so far" if speeds else "promoted last"  # fewer registers are not better
    words = f"{called}: {_value(best, timed=bool(speeds))}" if best is not None else "no kernel has passed yet"
    body.append(svg.text(_RIGHT, 14, words, "ch-title" if best is None else "ch-best", "end"))
    return Picture(_WIDTH, _HEIGHT, f"{what} to step {upto}; {words}", "".join(body))


def _timed(rows: Sequence[StepRow], speeds: Sequence[SpeedRow]) -> list[_ChartPoint]:
    took = {speed.step: speed.latency_us for speed in speeds}
    points, best = [], math.inf
    for row in (r for r in rows if r.status is not None):
        passed, value = row.status is Status.PASSED, took.get(row.number)
        best = min(best, value) if row.was_best and value is not None else best
        points.append(_ChartPoint(row.number, passed, value, best if best < math.inf else None))
    return points


def _compiled(rows: Sequence[StepRow]) -> list[_ChartPoint]:
    """Return the points without times: the best is the last promoted kernel."""
    points: list[_ChartPoint] = []
    best: float | None = None
    for row in (r for r in rows if r.status is not None):
        value = float(row.registers) if row.registers else None
        best = value if row.outcome is Outcome.PROMOTED and value is not None else best
        points.append(_ChartPoint(row.number, row.status is Status.PASSED, value, best))
    return points


def _targets(speeds: Sequence[SpeedRow]) -> dict[str, float]:
    """Return the lines to reach: the strongest baseline and the bound, as the last timed step knows them."""
    if not speeds:
        return {}
    last = speeds[-1]
    found = {last.against.baseline if last.against else "": last.baseline_us,
             f"{last.share.bound.by} bound" if last.share else "": last.bound_us}  # fmt: skip
    return {name: value for name, value in found.items() if name and value}


def _scale(values: Sequence[float], points: Sequence[_ChartPoint]) -> _Scale:
    low, high = min(values), max(values)
    log = low > 0 and high > LOG_FROM * low
    low, high = (0.55 * low, 1.25 * high) if log else (0.0 if low < 0.5 * high else 0.92 * low, 1.04 * high)
    return _Scale(low, high, log, points[0].step, points[-1].step)


def _grid(scale: _Scale, points: Sequence[_ChartPoint], *, timed: bool) -> list[str]:
    body = []
    for value in _ticks(scale):
        y, words = scale.y(value), micros(value) if timed and value else f"{value:g}"
        body += [svg.line(_LEFT, y, _RIGHT, y, "ch-grid"), svg.text(_LEFT - 6, y + 4, words, "ch-tick", "end")]
    every = math.ceil(len(points) / _MOST_TICKS)
    body += [svg.text(scale.x(p.step), _BOTTOM + 18, str(p.step), "ch-tick", "middle") for p in points[::every]]
    return [*body, svg.text(_LEFT - 6, _BOTTOM + 18, "step", "ch-tick", "end")]


def _ticks(scale: _Scale) -> list[float]:
    if scale.log:
        decades = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)))
        fine = len(decades) < _MANY_DECADES
        ticks = [digit * 10.0**power for power in decades for digit in ((1, 2, 5) if fine else (1,))]
        return [tick for tick in ticks if scale.low <= tick <= scale.high]
    step = 10 ** math.floor(math.log10(scale.high - scale.low))
    step = next(s for s in (step / 5, step / 2, step, 2 * step, 5 * step) if (scale.high - scale.low) / s <= 4.5)
    first = math.ceil(scale.low / step)
    return [step * n for n in range(first, math.floor(scale.high / step) + 1)]


def _target(scale: _Scale, name: str, us: float, *, below: bool) -> tuple[str, str]:
    """Draw a line to reach, and its name, which no other line may cross; that of the lowest goes below it."""
    y = scale.y(us)
    kind = "ch-bound" if name.endswith("bound") else "ch-baseline"
    return (svg.line(_LEFT, y, _RIGHT, y, f"{kind}-line"),
            svg.text(_LEFT + 4, y + 14 if below else y - 5, f"{name} {micros(us)}", kind))  # fmt: skip


def _stairs(scale: _Scale, shown: Sequence[_ChartPoint]) -> list[str]:
    """Draw the staircase of the best so far."""
    stairs: list[tuple[float, float]] = []
    for x, y in ((scale.x(p.step), scale.y(p.best)) for p in shown if p.best is not None):
        stairs += [(x, stairs[-1][1]), (x, y)] if stairs else [(x, y)]
    return [svg.path(stairs, "ch-stairs")] if stairs else []


def _shapes(scale: _Scale, shown: Sequence[_ChartPoint], upto: int) -> list[str]:
    """Draw a shape for every verdict; the last one larger."""
    body: list[str] = []
    for point in shown:
        radius = 8.0 if point.step == upto else 5.0 if len(shown) <= _MANY_POINTS else 3.0
        x, y = scale.x(point.step), _TOP if point.value is None else scale.y(point.value)
        body.append(svg.dot(x, y, radius, "ch-passed") if point.passed else svg.cross(x, y, radius - 1, "ch-failed"))
    return body


def _value(value: float, *, timed: bool) -> str:
    return micros(value) if timed else f"{value:g} registers"


# ---- one timing


def contenders(workload: WorkloadPerformance, *, believed: bool) -> Picture:
    """Draw everyone's median as a bar with p10 and p90, and the comparison in words.

    Args:
        believed: False leaves the comparisons out: a SUSPECT time is no result.
    """
    left, right, row_height = 112, 318, 30
    longest = max(t.p90_us for t in workload.timings)
    body, told = [], []
    for row, timing in enumerate(workload.timings):
        y = 6 + row * row_height
        own = timing.contender == CANDIDATE
        name = called(timing.contender)
        low, middle, high = (
            left + (right - left) * us / longest for us in (timing.p10_us, timing.median_us, timing.p90_us)
        )
        speedup = workload.speedup(timing.contender) if believed else None
        words = pace(speedup) if speedup else ""
        body += [
            svg.text(left - 8, y + 14, name, "ch-own" if own else "ch-name", "end"),
            svg.rect(left, y, middle - left, 19, "ch-bar-own" if own else "ch-bar"),
            svg.line(low, y + 9.5, high, y + 9.5, "ch-spread"),
            svg.text(right + 8, y + 14, micros(timing.median_us), "ch-own" if own else "ch-name"),
            svg.text(_WIDTH - 4, y + 14, words, f"ch-word-{speedup.word.lower()}" if speedup else "", "end"),
        ]
        told.append(f"{name} {micros(timing.median_us)}{f', {words}' if words else ''}")
    return Picture(_WIDTH, 6 + row_height * len(workload.timings), "; ".join(told), "".join(body))


# ---- one wrong output


def wrong_where(comparison: Comparison) -> Picture | None:
    """Draw the output folded to cells, wrong ones filled by their share; None if no cell is known."""
    cells = comparison.heatmap
    if not cells or not cells[0]:
        return None
    size = min(28.0, _WIDTH / len(cells[0]), 170.0 / len(cells))
    body = []
    for r, row in enumerate(cells):
        for c, share in enumerate(row):
            kind = "ch-right" if share == 0 else f"ch-wrong-{1 if share < 0.34 else 2 if share < 0.67 else 3}"
            body.append(svg.rect(c * size, r * size, size - 1, size - 1, kind))
    label = f"where {comparison.output} is wrong: {comparison.pattern or lowered(comparison.sentence)}"
    return Picture(int(size * len(cells[0])), int(size * len(cells)) or 1, label, "".join(body))
