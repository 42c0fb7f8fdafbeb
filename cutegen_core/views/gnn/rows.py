"""Write a run's figures and progress in words, for the page and the terminal."""

from __future__ import annotations

import math
from statistics import mean, stdev
from typing import NamedTuple

from cutegen_core.records.gnn import RunProgress, RunResult
from cutegen_core.records.wording import sized
from cutegen_core.views.gnn.figures import figures
from cutegen_core.views.gnn.runs import RunView, figure_device

_PROCESSOR = "processor"


class FigureRow(NamedTuple):
    """A figure, and the device that it is from."""

    name: str
    value: str
    device: str


def duration(seconds: float) -> str:
    """Write a time span: "8.4 ms", "1.25 s", "12 s", "3 min 20 s", "2 h 5 min"; "–" for what is no time."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 10:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent_of(share: float | None) -> str:
    """Write an accuracy: "90.3 %"; "–" where there is none."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f} %"


def progress_words(progress: RunProgress) -> str:
    """Write where a run is, with its estimate or without one."""
    parts = [progress.phase]
    if progress.epochs:
        parts.append(f"epoch {progress.epoch} of {progress.epochs}")
    if progress.total:
        parts.append(f"batch {progress.done} of {progress.total}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    parts.append(f"about {duration(progress.left_s)} left" if progress.left_s is not None else "no estimate yet")
    return " · ".join(parts)


def figure_rows(view: RunView) -> list[FigureRow]:
    """Return every figure that the run has."""
    device = figure_device(view)
    rows: list[FigureRow] = []
    if found := figures(view):
        rows += [
            FigureRow("epoch, median", duration(found.epoch.seconds), device),
            FigureRow("prepare, per thread", duration(found.prepare), _PROCESSOR),
            FigureRow("copy", duration(found.transfer), device),
            FigureRow("compute", duration(found.compute), device),
            FigureRow("P: epoch over its longest stage", f"{found.p:.2f}", device),
        ]
        if found.c is not None:
            rows.append(FigureRow("C: epoch over compute only", f"{found.c:.2f}", device))
        if found.over_serial is not None:
            rows.append(FigureRow("serial epoch over pipelined", f"{found.over_serial:.2f}", device))
        if found.edges_per_thread_s is not None:
            rows.append(FigureRow("sampled edges per second and thread", sized(found.edges_per_thread_s), _PROCESSOR))
    return rows + (_accuracy_rows(view.result, device) if view.result else [])


def _accuracy_rows(result: RunResult, device: str) -> list[FigureRow]:
    rows: list[FigureRow] = []
    named = (
        ("test accuracy, sampled", result.sampled_accuracy, result.sampled_seconds),
        ("test accuracy, all neighbours", result.full_accuracy, result.full_seconds),
        ("test accuracy, features only", result.features_only_accuracy, None),
    )
    for name, share, seconds in named:
        if share is not None and math.isfinite(share):
            took = f" in {duration(seconds)}" if seconds is not None else ""
            rows.append(FigureRow(name, f"{percent_of(share)}{took}", device))
    if len(result.accuracies) > 1:
        spread = f"{percent_of(mean(result.accuracies))} ± {100 * stdev(result.accuracies):.2f}"
        rows.append(FigureRow(f"test accuracy, mean of {len(result.accuracies)} trials", spread, device))
    return rows
