"""What becomes of a kernel that passed: the new best, the tip of a branch, or one kept beside them.

Measured beside the best in turns, the word on the two decides. Where the best could not be measured beside it, a person
does. A kernel that was not timed is promoted by itself only where the best was not, either.
"""

from __future__ import annotations

from cutegen_core.records.event import Outcome
from cutegen_core.records.performance import Word
from cutegen_core.trajectory.state import State, Step


def doubt(step: Step) -> str:
    """Why a person must decide whether this becomes the best, whatever the autonomy; "" where nothing speaks for it."""
    if step.tried is None or not step.passed:
        return ""
    reasons = []
    if "CONFIRM" in step.tried.marks:
        reasons.append("far faster than the strongest baseline: look at the kernel before it is promoted")
    if step.tried.best_untimed:
        reasons.append(f"not timed in turns with the best kernel: {step.tried.best_untimed}")
    return "; ".join(reasons)


def not_faster(state: State, step: Step) -> str:
    """Why a kernel that passed is not the new best; "" where it is, or where the best was not timed."""
    took, least = _latency_ms(step), _latency_ms(state.best_step)
    if least is None:
        return ""
    if took is None:
        return f"not timed, and the best is ({least:.4g} ms)"
    assert step.tried is not None
    if step.tried.against_best is not None:
        word = step.tried.against_best
        return "" if word is Word.FASTER else f"{word} beside the best kernel, timed in turns"
    return f"{took:.4g} ms, and the best takes {least:.4g} ms" if took > least else ""


def outcome(state: State, step: Step, kept: str) -> Outcome:
    """What becomes of a kernel that passed; `kept` says why it is not the new best."""
    if not kept:
        return Outcome.PROMOTED
    tip = state.step_of(state.base) if state.branched and state.base else None
    took, least = _latency_ms(step), _latency_ms(tip)
    advances = state.branched and took is not None and (least is None or took < least)
    return Outcome.ADVANCED if advances else Outcome.KEPT


def _latency_ms(step: Step | None) -> float | None:
    """None also where one of several workloads could not be timed: the others do not stand for it."""
    tried = step.tried if step else None
    return tried.latency_ms if tried and "NOT_TIMED" not in tried.marks else None
