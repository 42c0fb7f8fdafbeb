"""Say whether a further idea is worth its calls: how near the best is to its bound, and what a step has brought so far.

    headroom = 1 - bound / best
    share    = (1 + sum of the shares of the headroom that the steps so far took) / (1 + how many steps)
    gain     = 100 x headroom x share                     expected of the next step, in percent of the best's time
    price    = mean of what those steps took              in tokens, or in money

Steps count that asked a model while there was a best kernel; one without a promotion took a share of 0. The 1 stands
for a step that took all of it: ten that brought nothing leave an eleventh.
"""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.evaluate.evidence.speed import share
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.propose.port import Attempt, ProposalRequest
from cutegen_core.records.performance import COMPULSORY, Bound, WorkloadPerformance
from cutegen_core.records.wording import counted, micros

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


class _Near(NamedTuple):
    """The best's time, or its estimate, and the bound, in µs."""

    best: float
    bound: float
    timed: bool

    @property
    def headroom(self) -> float:
        return max(0.0, 1 - self.bound / self.best)

    @property
    def words(self) -> str:
        """Write "50 % of the best's time of 20 µs lie above its bound of 10 µs"."""
        of = f"{'time' if self.timed else 'estimate'} of {micros(self.best)}"
        return f"{100 * self.headroom:.2g} % of the best's {of} lie above its bound of {micros(self.bound)}"


class _PaidStep(NamedTuple):
    """What a step brought, as a share of the headroom that there was, and what it took."""

    share: float
    tokens: int
    money: float | None


def too_dear(request: ProposalRequest) -> str:
    """Return the numbers by which the next step is expected to cost more than it is worth, "" where it is worth it.

    That is so while nothing says otherwise: no price was set, the bound is not known, or no step has asked for an idea.
    """
    worth = request.effort
    near = _near(request) if (worth.tokens_per_percent or worth.cost_per_percent) else None
    steps = _steps(request.attempts, near.bound) if near else []
    if near is None or not steps:
        return ""
    expected = (1 + sum(step.share for step in steps)) / (1 + len(steps))
    gain = 100 * near.headroom * expected
    money = [step.money for step in steps if step.money is not None]
    prices = [(worth.tokens_per_percent, sum(step.tokens for step in steps) / len(steps), "tokens", ",.0f")]
    prices += [(worth.cost_per_percent, sum(money) / len(money), "in money", ".4g")] if money else []
    for limit, price, unit, form in prices:
        if limit and price > limit * gain:
            dear = f"{gain:.2g} % for {price:{form}} {unit}, and 1 % is worth {limit:{form}}"
            after = f"{counted(len(steps), 'step')} let expect {100 * expected:.2g} % of that"
            return f"the next step is expected to bring {dear}: {near.words}, and {after}"
    return ""


def _near(request: ProposalRequest) -> _Near | None:
    """Return how near the best is to its bound, the compulsory one where another pipe may beat the graph's; None where
    neither time nor estimate is known."""
    trial = request.base_trial
    if trial is None or not trial.passed:
        return None
    timed = overall(trial.performance)
    if timed is None:
        guess = trial.estimate
        return _Near(guess.us, guess.least_us, False) if guess and guess.us and guess.least_us else None
    found = share(timed)
    least = timed.bound(COMPULSORY)
    if found is None or not found.bound.us:
        return None
    beatable = _is_beatable(timed, found.bound, found.fraction)
    return _Near(timed.candidate.median_us, least.us if beatable and least else found.bound.us, True)


def _steps(attempts: tuple[Attempt, ...], bound: float) -> list[_PaidStep]:
    """Return the steps that asked a model while there was a best kernel, oldest first."""
    steps, best = [], 0.0
    for attempt in attempts:
        us = attempt.us if attempt.promoted else None
        if best and attempt.tokens:
            taken = (best - us) / (best - bound) if us and best > bound else 0.0
            steps.append(_PaidStep(min(1.0, max(0.0, taken)), attempt.tokens, attempt.money))
        best = us or best
    return steps
