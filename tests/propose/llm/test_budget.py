"""The budget is never exceeded by more than the one reserved call, whatever the calls do."""

import random

import pytest

from cutegen_core.propose.llm.budget import (
    Budget,
    BudgetError,
    BudgetUse,
    cost_of,
    forfeit,
    hold,
    reserve,
    settle,
)
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.model_error import ModelError
from cutegen_core.propose.tokens import TokenUsage, estimate_tokens
from tests import model_server as play
from tests.later import Later
from tests.model_server import ModelServer

transport = Later("cutegen_core.propose.llm.chat")

PRICED = ModelSettings(
    "m", "http://localhost/v1", "m", max_output_tokens=1000, price_in_per_million=2.0, price_out_per_million=10.0
)
FREE = ModelSettings("m", "http://localhost/v1", "m", max_output_tokens=1000)


def test_a_call_is_reserved_before_and_settled_after():
    budget, spent = Budget(max_tokens=5000, max_cost=1.0), BudgetUse()
    reservation = reserve(budget, spent, PRICED, 500)
    assert reservation.usage.tokens == 1500
    assert reservation.cost == pytest.approx(0.011)
    spent = hold(spent, reservation)
    assert (spent.held_tokens, spent.tokens) == (1500, 0)
    spent = settle(spent, reservation, TokenUsage(480, 20), PRICED)
    assert spent == BudgetUse(480, 20, cost_of(TokenUsage(480, 20), PRICED), calls=1)


def test_what_does_not_fit_is_refused_with_the_numbers():
    with pytest.raises(
        BudgetError, match=r"1,500 tokens \(500 of the prompt .* 1,000 of the answer\), and 1,200 of 2,000"
    ):
        reserve(Budget(max_tokens=2000), BudgetUse(prompt_tokens=700, completion_tokens=100), FREE, 500)
    with pytest.raises(BudgetError, match=r"may cost 0.0110, and 0.0010 of 0.0500 are left"):
        reserve(Budget(max_cost=0.05), BudgetUse(cost=0.049), PRICED, 500)
    assert reserve(Budget(max_tokens=2000), BudgetUse(prompt_tokens=500), FREE, 500).usage.tokens == 1500


def test_calls_side_by_side_cannot_overdraw_together():
    budget = Budget(max_tokens=3000)
    spent = hold(BudgetUse(), reserve(budget, BudgetUse(), FREE, 500))
    spent = hold(spent, reserve(budget, spent, FREE, 500))
    with pytest.raises(BudgetError, match="and 0 of 3,000 are left"):
        reserve(budget, spent, FREE, 1)


def test_money_needs_a_price():
    with pytest.raises(BudgetError, match="needs the prices of m"):
        reserve(Budget(max_cost=1.0), BudgetUse(), FREE, 10)
    assert reserve(Budget(), BudgetUse(), FREE, 10).cost == 0.0


def test_a_lost_answer_is_charged_in_full():
    reservation = reserve(Budget(), BudgetUse(), PRICED, 500)
    spent = forfeit(hold(BudgetUse(), reservation), reservation, PRICED)
    assert spent.tokens == 1500
    assert spent.cost == reservation.cost
    assert spent.estimated
    assert spent.held_tokens == 0


def test_random_sessions_stay_within_the_budget():
    dice = random.Random(7)
    for _ in range(300):
        budget = Budget(max_tokens=dice.randrange(2000, 20_000), max_cost=dice.uniform(0.01, 0.2))
        spent, largest = BudgetUse(), 0
        while True:
            try:
                reservation = reserve(budget, spent, PRICED, dice.randrange(1, 1500))
            except BudgetError:
                break
            spent = hold(spent, reservation)
            # Estimates may be wrong by half, and one lost attempt may have to be paid for.
            prompt = int(reservation.usage.prompt_tokens * dice.uniform(0.5, 1.5)) + dice.choice([0, 100])
            spent = settle(spent, reservation, TokenUsage(prompt, dice.randrange(1001)), PRICED)
            largest = max(largest, reservation.usage.tokens)
        assert spent.tokens <= budget.max_tokens + largest
        assert spent.cost <= budget.max_cost + 0.02
        assert spent.held_tokens == 0


def test_a_real_call_that_fails_is_charged_what_was_streamed():
    text = "x" * 700
    with ModelServer(play.reset_mid_stream(text)) as server:
        settings = ModelSettings("m", server.base_url, "m", max_output_tokens=1000)
        messages = [transport.Message("user", "y" * 350)]
        reservation = reserve(
            Budget(max_tokens=2000), BudgetUse(), settings, transport.estimate_prompt_tokens(messages)
        )
        with pytest.raises(ModelError) as caught:
            transport.ChatModel(settings, None).ask(messages, progress=lambda text: None)
    spent = settle(hold(BudgetUse(), reservation), reservation, caught.value.charged.usage, settings)
    assert (spent.prompt_tokens, spent.completion_tokens) == (104, 200)
    assert spent.estimated


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("x" * 35, 10), ("x" * 36, 11), ("\u6f22\u5b57", 3), ("\ud800", 1)]
)
def test_tokens_are_estimated_without_a_tokenizer(text, tokens):
    assert estimate_tokens(text) == tokens
