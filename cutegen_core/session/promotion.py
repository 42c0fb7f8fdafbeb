"""Decide whether a kernel that passed becomes the best, the tip of its branch, or is only kept.

Timed in turns with the best, the comparison decides: over several benchmark workloads the geometric mean, and none may
become slower. Where the best could not be timed with it, a person decides. A
kernel that was not measured becomes the best by itself only if the best was not measured, either; a model's only if its
estimate is lower than the best's.
"""

from __future__ import annotations

from cutegen_core.evaluate.timing.overall import regressed
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import AnsweredBy, Outcome
from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.trial import Mark
from cutegen_core.records.wording import factor_words, micros
from cutegen_core.trajectory.state import State, Step

BETTER_BY_ESTIMATE = 0.99
"""Estimate, in estimates of the best, up to which a kernel that was not measured becomes the best."""


def doubt(step: Step) -> str:
    """Return why a person must decide about this promotion in any autonomy mode, "" if no person must."""
    if step.tried is None or not step.passed:
        return ""
    reasons = []
    if Mark.CONFIRM in step.tried.marks:
        reasons.append("far faster than the fastest baseline: look at the kernel before it is promoted")
    if step.tried.best_untimed:
        reasons.append(f"not measured in turns with the best kernel: {step.tried.best_untimed}")
    return "; ".join(reasons)


def not_faster(state: State, step: Step) -> str:
    """Return why a kernel that passed is not the new best, "" if it is, or if the best was not measured."""
    if step.candidate is not None and step.candidate == state.best:
        return "the best kernel itself, unchanged"
    took, least = _latency_ms(step), _latency_ms(state.best_step)
    if least is None:
        return "" if took is not None else _by_estimate(state, step)
    if took is None:
        return f"not measured, and the best is ({least:.4g} ms)"
    assert step.tried is not None
    if step.tried.against_best is not None:
        word, slower = step.tried.against_best, regressed(step.tried.shapes)
        if slower and not state.settings.allow_regressions:
            return f"regressed on {', '.join(map(_shape_words, slower))}: timed in turns with the best kernel"
        return "" if word is Word.FASTER else f"{word}, timed in turns with the best kernel"
    return f"{took:.4g} ms, and the best takes {least:.4g} ms" if took > least else ""


def _by_estimate(state: State, step: Step) -> str:
    """Return why a model's kernel is not better than the best by the static model, "" if it is or nothing says so.

    The playbook's kernels come in an order that was measured; a person's are what the person wants.
    """
    best = state.best_step
    if best is None or step.author is not Author.MODEL or state.settings.answered_by is AnsweredBy.RECORDING:
        return ""
    ours = step.tried.estimate_us if step.tried else None
    theirs = best.tried.estimate_us if best.tried else None
    if ours is None or theirs is None or ours <= BETTER_BY_ESTIMATE * theirs:
        return ""
    return f"not measured; estimate {micros(ours)}, and the best's is {micros(theirs)}"


def outcome(state: State, step: Step, kept: str) -> Outcome:
    """Return how the step of a kernel that passed is closed; `kept` says why it is not the new best."""
    if not kept:
        return Outcome.PROMOTED
    tip = state.step_of(state.base) if state.branched and state.base else None
    took, least = _latency_ms(step), _latency_ms(tip)
    advances = state.branched and took is not None and (least is None or took < least)
    return Outcome.ADVANCED if advances else Outcome.KEPT


def _shape_words(shape: ShapeTime) -> str:
    return f"{shape.workload} ({factor_words(shape.ratio)})" if shape.ratio else shape.workload


def _latency_ms(step: Step | None) -> float | None:
    """Return the step's latency; None if any workload was not measured, since the others do not stand for it."""
    tried = step.tried if step else None
    return tried.latency_ms if tried and Mark.NOT_TIMED not in tried.marks else None
