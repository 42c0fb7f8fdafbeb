"""Say whether the best kernel is so near its bound that no further idea is worth a call."""

from __future__ import annotations

from cutegen_core.evaluate.evidence.speed import share
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.records.performance import COMPULSORY, Bound, WorkloadPerformance

_BEATEN_ELSEWHERE = "fp32"
"""The pipe whose bound tensor cores may beat at the same precision (three TF32 products)."""


def reached(request: ProposalRequest) -> str:
    """Return what the best's time reaches where that is enough, "" where there is headroom or nothing was timed.

    An estimate is no time: it ends no session.
    """
    trial, enough = request.base_trial, request.effort.enough
    timed = overall(trial.performance) if enough and trial and trial.passed else None
    found = share(timed) if timed else None
    if timed is None or found is None or found.fraction < enough or _is_beatable(timed, found.bound, enough):
        return ""
    return f"the best reaches {found.words}, and {100 * enough:.0f} % are enough: what is left is not worth a step"


def _is_beatable(timed: WorkloadPerformance, bound: Bound, enough: float) -> bool:
    """Return whether another pipe may beat a bound by arithmetic: the compulsory one, at the fastest pipe, is far."""
    if bound.by == "memory" or bound.pipe != _BEATEN_ELSEWHERE:
        return False
    least = timed.bound(COMPULSORY)
    return least is None or least.us < enough * timed.candidate.median_us
