"""Budgets of money and minutes, and the price of a percent; a real server plays the model, trials are scripted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.budget import cost_of
from cutegen_core.propose.tokens import TokenUsage
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort, Gate, Limit
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Decided, Recorded, SessionState
from cutegen_core.trajectory.state import LONGEST_GAP_S
from cutegen_core.trajectory.transitions import fold_on
from tests.model_server import reply
from tests.session.asking import kernel, offer

PRICES = {"price_in_per_million": 3.0, "price_cached_per_million": 0.3, "price_out_per_million": 15.0}
KERNELS = [offer(f"idea {n}", kernel(n, f"estimate {90 - n}")) for n in range(9)]


def test_a_call_costs_what_its_input_its_cached_input_and_its_output_cost(desk, serve) -> None:  # type: ignore[no-untyped-def]
    text = KERNELS[0]
    serve(reply(text, size=500, cached=60), **PRICES)
    state = desk.go(desk.begin(1, max_steps=1))
    answer = state.steps[0].calls[0].answer
    assert (answer.prompt_tokens, answer.cached_tokens) == (100, 60)
    assert answer.cost == pytest.approx((40 * 3.0 + 60 * 0.3 + answer.completion_tokens * 15.0) / 1e6)
    assert state.cost == pytest.approx(answer.cost)


@pytest.mark.parametrize(
    ("cached", "price", "cost"), [(0, 1.0, 200.0), (50, 1.0, 150.0), (50, None, 200.0), (50, 0.0, 100.0)]
)
def test_without_a_price_of_their_own_cached_tokens_cost_what_others_do(serve, cached, price, cost) -> None:  # type: ignore[no-untyped-def]
    serve("unused", price_in_per_million=2.0, price_out_per_million=9.0, price_cached_per_million=price)
    settings = model_settings.read().settings[0]
    assert settings.price_cached_per_million == price
    assert 1e6 * cost_of(TokenUsage(100, 0, cached_tokens=cached), settings) == pytest.approx(cost)


def test_a_budget_of_money_ends_the_session_between_calls_and_a_larger_one_goes_on(desk, serve) -> None:  # type: ignore[no-untyped-def]
    server = serve(*KERNELS, max_output_tokens=1000, **PRICES)
    session = desk.begin(1, max_steps=9, effort={"max_cost": 0.04})
    state = desk.go(session)
    assert (state.status, state.spent) == (SessionState.EXHAUSTED, Limit.MONEY), state.reason
    assert "of 0.0400 are left. Raise the money budget" in state.reason
    asked = len(server.asked)
    assert 0 < asked < 9
    assert state.cost <= 0.04
    assert list(views.paid_lines(state))[1:] == [f"money: {state.cost:.4g} of 0.04"]
    state = desk.decide(session, DecisionKind.BUDGET, max_steps=9, max_cost=0.06)
    assert state.max_cost == 0.06
    assert len(server.asked) > asked


@pytest.mark.parametrize("effort", [{"max_cost": 1.0}, {"cost_per_percent": 0.1}])
def test_a_limit_in_money_is_refused_without_prices(desk, serve, effort) -> None:  # type: ignore[no-untyped-def]
    serve(*KERNELS)
    with pytest.raises(UsageError, match="a limit in money needs the prices of small; set them on the Setup page"):
        desk.begin(1, effort=effort)
    with pytest.raises(UsageError, match="nothing else costs money"):
        desk.begin(1, effort=effort, answered_by=AnsweredBy.PLAYBOOK)


def test_prices_that_are_taken_away_end_a_session_with_a_budget_of_money(desk, serve) -> None:  # type: ignore[no-untyped-def]
    server = serve(*KERNELS, **PRICES)
    session = desk.begin(1, effort={"max_cost": 9.0})
    model_settings.path().unlink()
    serve(*KERNELS)
    state = desk.go(session)
    assert (state.status, state.spent, len(server.asked)) == (SessionState.EXHAUSTED, Limit.MONEY, 0)
    assert "needs the prices of small" in state.reason


def test_minutes_count_while_the_session_works_and_end_it_between_calls(desk, serve, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    server = serve(*(reply(text, size=2000, pause_s=0.6) for text in KERNELS))
    session = desk.begin(1, max_steps=9, effort={"max_minutes": 0.024})
    state = desk.go(session)
    assert (state.status, state.spent) == (SessionState.EXHAUSTED, Limit.MINUTES), state.reason
    assert "its budget of 0.024 minutes is used up; raise it to go on" in state.reason
    assert list(views.paid_lines(state))[1:] == [f"worked: {state.worked_s / 60:.1f} of 0.024 minutes"]
    assert state.worked_s >= 1.44
    assert 0 < len(server.asked) < 9
    assert state.step.outcome is not None or state.step.calls == (), "it ended between calls"
    asked = len(server.asked)
    state = desk.decide(session, DecisionKind.BUDGET, max_steps=9, max_minutes=state.worked_s / 60 + 0.024)
    assert state.spent is Limit.MINUTES
    assert len(server.asked) > asked


def test_time_in_which_a_person_is_waited_for_does_not_count(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*KERNELS)
    session = desk.begin(1, autonomy=Autonomy.STEP, gates=(Gate.DIFF,), effort={"max_minutes": 5})
    waiting = desk.go(session)
    approved = Recorded(waiting.seq + 1, waiting.updated_at + 100_000, Decided(Decision(DecisionKind.STANDING)))
    assert fold_on(waiting, [approved]).worked_s == waiting.worked_s
    begun = replace(waiting, status=SessionState.RUNNING)
    assert fold_on(begun, [approved]).worked_s == pytest.approx(waiting.worked_s + LONGEST_GAP_S), "the engine was away"


def test_a_step_that_costs_more_than_its_expected_gain_is_worth_is_not_taken(desk, serve) -> None:  # type: ignore[no-untyped-def]
    server = serve(offer("seed", kernel(1, "estimate 20", "bound 10")), *(
        offer(f"idea {n}", kernel(n, "estimate 30", "bound 10")) for n in range(2, 9)
    ))  # fmt: skip
    state = desk.go(desk.begin(1, max_steps=9, effort={"tokens_per_percent": 30}))
    assert state.status is SessionState.ACCEPTED, state.reason
    steps = [step for step in state.steps if step.calls]
    tokens = [sum(call.tokens for call in step.calls) for step in steps[1:]]
    n = len(tokens)
    mean = sum(tokens) / n
    gain = 100 * (1 - 10 / 20) / (1 + n)
    assert mean > 30 * gain, "the last answer was that it is too dear"
    assert n == 1 or sum(tokens[:-1]) / (n - 1) <= 30 * 100 * 0.5 / n, "and the one before was not"
    assert f"is expected to bring {gain:.2g} % for {mean:,.0f} tokens, and 1 % is worth 30: 50 %" in state.reason
    assert "of the best's estimate of 20 µs lie above its bound of 10 µs" in state.reason
    assert len(server.asked) == n + 1


def test_without_that_limit_nothing_is_too_dear(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*(offer(f"idea {n}", kernel(n, "estimate 30", "bound 29.9")) for n in range(9)))
    state = desk.go(desk.begin(1, max_steps=5))
    assert (state.status, state.spent) == (SessionState.EXHAUSTED, Limit.STEPS)


@pytest.mark.parametrize("field", ["max_cost", "max_minutes", "tokens_per_percent", "cost_per_percent"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_is_above_zero(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be above 0"):
        Effort(**{field: value})  # type: ignore[arg-type]
