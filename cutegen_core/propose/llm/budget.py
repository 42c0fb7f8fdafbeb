"""Account for tokens and money: reserve before a call, settle after it, also for failures.

1. `reserve` computes the largest cost of a call, and refuses it if that exceeds the rest of the budget.
2. `hold` counts the reservation as spent while the call runs, so that parallel calls cannot overdraw together.
3. `settle` replaces it by the real use; `forfeit` charges all of it if the use is unknown (a crash in between).

The records are plain values: the session computes them from its events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.tokens import TokenUsage
from cutegen_core.records.decision import Limit
from cutegen_core.records.errors import BudgetError

USUAL_CACHED_PRICE = 0.1
"""Assumed where prices are not known: servers charge a tenth to a half, and save nearly all of the work."""


@dataclass(frozen=True)
class Budget:
    """Amounts that a session may spend; None is no limit.

    Attributes:
        max_tokens: prompts and answers together.
        max_cost: in the currency of the model's prices.
    """

    max_tokens: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class Reservation:
    """Largest use of one call; cost 0 if the model has no price."""

    usage: TokenUsage
    cost: float


@dataclass(frozen=True)
class BudgetUse:
    """Amounts used so far.

    Attributes:
        held_tokens, held_cost: reserved by calls in progress.
        calls: number of settled or forfeited calls.
        estimated: some of it is an estimate.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    held_tokens: int = 0
    held_cost: float = 0.0
    calls: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def cost_of(usage: TokenUsage, settings: ModelSettings) -> float | None:
    """Return the cost in the currency of the prices; None if the model has none."""
    if settings.price_in_per_million is None or settings.price_out_per_million is None:
        return None
    kept = settings.price_cached_per_million
    cached = usage.cached_tokens * (settings.price_in_per_million if kept is None else kept)
    read = (usage.prompt_tokens - usage.cached_tokens) * settings.price_in_per_million
    return (read + cached + usage.completion_tokens * settings.price_out_per_million) / 1_000_000


def cached_price(settings: ModelSettings) -> float:
    """Return what a token of the prompt costs that the server kept, of the price of a new one."""
    if not settings.price_in_per_million:
        return USUAL_CACHED_PRICE
    kept = settings.price_cached_per_million
    return 1.0 if kept is None else kept / settings.price_in_per_million


def no_prices(settings: ModelSettings) -> str:
    """Return why money cannot limit a session that asks this model."""
    return f"a limit in money needs the prices of {settings.name}; set them on the Setup page"


def reserve(budget: Budget, spent: BudgetUse, settings: ModelSettings, prompt_tokens: int) -> Reservation:
    """Return the reservation for one call with a prompt of that many tokens.

    Raises:
        BudgetError: it exceeds the rest of the budget.
    """
    usage = TokenUsage(prompt_tokens, settings.max_output_tokens, estimated=True)
    cost = cost_of(usage, settings)
    if budget.max_tokens is not None and spent.tokens + spent.held_tokens + usage.tokens > budget.max_tokens:
        left = max(0, budget.max_tokens - spent.tokens - spent.held_tokens)
        raise BudgetError(
            f"the next call may use {usage.tokens:,} tokens ({prompt_tokens:,} of the prompt and up to "
            f"{settings.max_output_tokens:,} of the answer), and {left:,} of {budget.max_tokens:,} are left. "
            "Raise the token budget, or lower max_output_tokens of the model.",
            Limit.TOKENS,
        )
    if budget.max_cost is None:
        return Reservation(usage, cost or 0.0)
    if cost is None:
        raise BudgetError(no_prices(settings), Limit.MONEY)
    if spent.cost + spent.held_cost + cost > budget.max_cost:
        left_cost = max(0.0, budget.max_cost - spent.cost - spent.held_cost)
        raise BudgetError(
            f"the next call may cost {cost:.4f}, and {left_cost:.4f} of {budget.max_cost:.4f} are left. "
            "Raise the money budget, or lower max_output_tokens of the model.",
            Limit.MONEY,
        )
    return Reservation(usage, cost)


def hold(spent: BudgetUse, reservation: Reservation) -> BudgetUse:
    """Begin a call: hold its reservation."""
    return replace(
        spent,
        held_tokens=spent.held_tokens + reservation.usage.tokens,
        held_cost=spent.held_cost + reservation.cost,
    )


def settle(spent: BudgetUse, reservation: Reservation, used: TokenUsage, settings: ModelSettings) -> BudgetUse:
    """End a call, successful or not: release the reservation and charge the real use."""
    return replace(
        spent,
        prompt_tokens=spent.prompt_tokens + used.prompt_tokens,
        completion_tokens=spent.completion_tokens + used.completion_tokens,
        cost=spent.cost + (cost_of(used, settings) or 0.0),
        held_tokens=max(0, spent.held_tokens - reservation.usage.tokens),
        held_cost=max(0.0, spent.held_cost - reservation.cost),
        calls=spent.calls + 1,
        estimated=spent.estimated or used.estimated,
    )


def forfeit(spent: BudgetUse, reservation: Reservation, settings: ModelSettings) -> BudgetUse:
    """Charge the whole reservation, because the answer was lost and may have been billed."""
    return settle(spent, reservation, reservation.usage, settings)
