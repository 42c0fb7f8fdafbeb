"""Several candidates a step and the limits of a session on the pages; a server plays the model, trials are scripted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Autonomy, DecisionKind, Effort, Gate
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from tests.model_server import ModelServer, reply
from tests.pages.conftest import OpenPage, button_of, framed, shown
from tests.session.asking import Sessions, kernel, offer

REPLIES = (
    offer("slow", kernel(1, "estimate 30")),
    offer("<b>fast</b>", kernel(2, "estimate 20")),
    offer("broken", kernel(3, "status COMPILE_ERROR")),
)
PRICES = {"price_in_per_million": 3.0, "price_out_per_million": 15.0}


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Iterator[Sessions]:
    made = Sessions(tmp_path, ())
    with ModelServer(*(reply(text, size=500) for text in REPLIES)) as server:
        settings = [ModelSettings(name, server.base_url, name, **PRICES) for name in ("one", "two")]  # type: ignore[arg-type]
        model_settings.write(Models(tuple(settings)))
        yield made
    made.store.close()


def test_each_candidate_is_shown_with_what_came_of_it_and_another_can_be_chosen(
    desk: Sessions, open_page: OpenPage
) -> None:
    session = desk.begin(autonomy=Autonomy.STEP, gates=(Gate.DIFF,), effort={"models": ("one", "two")})
    desk.go(session)
    page = open_page("session", id=session)
    text = shown(page)
    assert "Candidates · 2 of 3 passed" in text
    for words in (
        "estimate 30 µs",
        "estimate 20 µs",
        "✗ compile error",
        "&lt;b&gt;fast&lt;/b&gt;",
        ">one<",
        ">two<",
        "2 · kept",
    ):
        assert words in text
    assert "Passed as one of 3 candidates" in text
    assert "// kernel 1" in text, "the first that is not kept"
    page.selectbox(key="candidate-1").select("3").run()
    assert "// kernel 3" in shown(page)
    assert "as scripted" in shown(page)
    page.selectbox(key="candidate-1").select("2").run()
    assert not [b for b in page.button if (b.key or "").startswith("candidate-choose")], "the step goes on with it"
    page = open_page("session", id=session, candidate=1)
    button_of(page, "candidate-choose").click().run()
    state = desk.go(session)
    assert state.steps[0].candidate == state.steps[0].alternatives[0].candidate
    assert [e.event.decision.kind for e in desk.store.events(session) if e.event.kind == "decided"] == [
        DecisionKind.CHOOSE
    ]


def test_an_accepted_session_offers_no_choice(desk: Sessions, open_page: OpenPage) -> None:
    session = desk.begin(max_steps=1)
    state = desk.go(session)
    desk.decide(session, DecisionKind.ACCEPT, candidate=state.best)
    page = open_page("session", id=session, step=1, pane="candidates")
    assert button_of(page, "candidate-choose").disabled


@pytest.mark.parametrize(
    ("effort", "told", "raised"),
    [
        ({"max_cost": 0.13}, "of 0.13<", "Raise to 0.26 in money"),
        ({"max_minutes": 0.0001}, "of 0.0001 min<", "Raise to 0.0002 minutes"),
    ],
)
def test_a_budget_that_is_used_up_is_said_and_can_be_raised(
    desk: Sessions, open_page: OpenPage, effort: dict[str, float], told: str, raised: str
) -> None:
    session = desk.begin(1, max_steps=9, effort=effort)
    state = desk.go(session)
    assert state.status is SessionState.EXHAUSTED
    page = open_page("session", id=session)
    assert told in shown(page)
    assert state.reason in " ".join(shown(page).split())
    button = button_of(page, "decide-budget")
    assert button.label.startswith(raised)
    button.click().run()
    again = desk.go(session)
    name, first = next(iter(effort.items()))
    assert getattr(again, name) == pytest.approx(2 * first)


def test_the_form_of_a_new_session_has_them(desk: Sessions) -> None:
    page = framed("problems", problem="relu", proposer="llm")
    prefix = next(str(b.key) for b in page.button if str(b.key).startswith("new-start-")).removeprefix("new-start-")
    page.number_input(key=f"new-width-{prefix}").set_value(2)
    page.multiselect(key=f"new-models-{prefix}").select("one").select("two")
    page.number_input(key=f"new-minutes-{prefix}").set_value(7.5)
    page.number_input(key=f"new-money-{prefix}").set_value(0.5)
    page.number_input(key=f"new-worth-tokens-{prefix}").set_value(2000.0)
    page.checkbox(key=f"new-conversation-{prefix}").uncheck()
    page.run()
    assert not page.exception
    page.button(key=f"new-start-{prefix}").click().run()
    [session] = desk.store.sessions()
    assert state_of(desk.store, session).settings.effort == Effort(
        width=2,
        models=("one", "two"),
        max_cost=0.5,
        max_minutes=7.5,
        tokens_per_percent=2000.0,
        conversation=False,
    )


def test_without_prices_the_form_asks_for_them(desk: Sessions) -> None:
    model_settings.path().unlink()
    model_settings.write(Models((ModelSettings("free", "http://localhost:1/v1", "free"),)))
    page = framed("problems", problem="relu", proposer="llm")
    prefix = next(str(b.key) for b in page.button if str(b.key).startswith("new-start-")).removeprefix("new-start-")
    assert page.number_input(key=f"new-money-{prefix}").disabled
    assert "Money needs the prices of free" in shown(page)
