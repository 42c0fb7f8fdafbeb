"""The roles on the session page: their cards, the answer gate, own answers with their errors, shapes by step."""

from __future__ import annotations

import re

import pytest

from cutegen_core import views
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, GateOpened, Role
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.store import Store
from cutegen_core.views import CardState
from tests.later import Later
from tests.pages.conftest import OpenPage, button_of, framed, shown
from tests.pages.role_stories import SUITE, RoleStory, roles_story, suite_tried
from tests.pages.stories import long_story, softmax_story

speed_charts = Later("pages.components.shared.speed_charts")


def cards(store: Store, session: str, step: int) -> dict[Role, views.RoleCard]:
    view = views.session_view(store, session)
    return {card.role: card for card in views.role_cards(store, view, views.step_view(store, session, step))}


def told(page: object) -> str:
    return re.sub(r"<[^>]+>", " ", shown(page))  # type: ignore[arg-type]


def test_a_card_says_who_answers_how_far_it_is_and_what_was_said(store: Store) -> None:
    session = roles_story(store).session
    second, open_step = cards(store, session, 2), cards(store, session, 4)
    assert list(second) == [Role.TESTING, Role.PROFILING, Role.PLANNING, Role.CODING]
    assert {card.state for card in second.values()} == {CardState.ANSWERED}
    planning = second[Role.PLANNING]
    assert [said.label for said in planning.said] == ["idea", "shapes", "effect", "risk"]
    assert [call.dropped for call in planning.dropped] == ["not unrolling: wider loads"]
    assert (planning.model, planning.tokens, round(planning.seconds, 1)) == ("served-model", 2 * 2494, 6.8)
    assert [(said.label, said.text) for said in second[Role.CODING].said][1][0] == "size"
    assert len(second[Role.PROFILING].shapes) == 6
    assert [open_step[role].state for role in open_step] == [
        CardState.NOT_ASKED, CardState.ANSWERED, CardState.REVIEW, CardState.WAITING,
    ]  # fmt: skip
    assert (open_step[Role.PROFILING].by, open_step[Role.CODING].by) == (AnsweredBy.PLAYBOOK, AnsweredBy.LLM)
    assert cards(store, session, 3)[Role.PROFILING].by is AnsweredBy.PERSON


def test_the_suites_card_tells_the_mutants_that_survive(store: Store) -> None:
    session = roles_story(store).session
    suite = cards(store, session, 2)[Role.TESTING].suite
    assert suite is not None
    assert (suite.trusted, suite.passes, suite.caught, suite.different) == (True, True, 30, 30)
    story = RoleStory(store, problem="silu_and_mul", strategy="astra").begin(held=True)
    assert isinstance(story, RoleStory)
    story.start_step()
    story.answer(Role.TESTING, SUITE)
    story.add(suite_tried(story, survivors=2), GateOpened(1, Gate.INSTRUCTION))
    suite = cards(store, story.publish().session, 1)[Role.TESTING].suite
    assert suite is not None
    assert (suite.trusted, suite.caught, suite.different, len(suite.survivors)) == (False, 28, 30, 2)


def test_the_page_has_the_cards_and_without_roles_none(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=roles_story(store).session)
    text = told(page)
    assert "its answer waits for you" in text
    assert "mutants caught 30 of 30" in text
    assert "Review the answer of planning" in text
    assert button_of(page, "decide-approve").label == "Approve the answer"
    assert "cg-role-head" not in shown(open_page("session", id=softmax_story(store).session))


def test_a_card_opens_its_whole_exchanges(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=roles_story(store).session, step=2)
    button_of(page, "role-open-planning").click().run()
    page.run()
    assert page.query_params["pane"] in ("prompt", ["prompt"])
    text = told(page)
    assert "2 exchanges of planning" in text
    assert "not used: not unrolling: wider loads" in text
    prompts = [code.value.strip() for code in page.code]
    assert "the prompt for planning" in prompts
    assert "the prompt for coding" not in prompts


@pytest.mark.parametrize(
    ("role", "wrong", "reason"),
    [
        (Role.TESTING, "WORKLOADS = {'a': {'role': 'emulatr'}}", "emulatr"),
        (Role.TESTING, "I would test odd sizes.", "holds no WORKLOADS"),
        (Role.PLANNING, "wider loads", "names no idea"),
        (Role.CODING, "<<<<<<< SEARCH\nnot there\n=======\nx\n>>>>>>> REPLACE", "not"),
    ],
)
def test_a_wrong_answer_of_ones_own_stays_with_its_error(
    store: Store, open_page: OpenPage, role: Role, wrong: str, reason: str
) -> None:
    session = waiting_for(store, role)
    page = open_page("session", id=session)
    button_of(page, "decide-edit").click().run()
    field = next(area for area in page.text_area if area.key and area.key.startswith("own-answer-"))
    assert field.value, "the role's own answer is there to begin with"
    field.set_value(wrong).run()
    next(b for b in page.button if b.key == "own-use").click().run()
    page.run()
    error = re.search(r'cg-field-error"[^>]*>([^<]*)', shown(page))
    assert error, shown(page)[-3000:]
    assert "Not sent" in error[1]
    assert reason in error[1]
    assert not store.waiting(session)
    again = open_page("session", id=session)  # another tab, or after a reload
    assert wrong in [area.value for area in again.text_area]


def test_the_right_answer_of_ones_own_is_submitted(store: Store, open_page: OpenPage) -> None:
    session = waiting_for(store, Role.TESTING)
    page = open_page("session", id=session)
    button_of(page, "decide-edit").click().run()
    keys = [b.key for b in page.button if b.key]
    assert not any(key.startswith("decide-approve") for key in keys), "what would be approved is not on the screen"
    next(b for b in page.button if b.key == "own-use").click().run()
    page.run()
    (waiting,) = store.waiting(session)
    decision = waiting.decision
    assert (decision.kind, decision.gate, decision.text.strip()) == (DecisionKind.REPLY, Gate.ANSWER, SUITE.strip())


def test_shapes_by_step(store: Store, open_page: OpenPage) -> None:
    session = roles_story(store).session
    view = views.session_view(store, session)
    table = views.shape_table(store, view.state, view.problem)
    assert table.timed
    assert [(c.step, c.is_existing, c.is_best, c.regressed) for c in table.columns] == [
        (1, True, False, ()), (2, False, True, ()), (3, False, False, (table.rows[0],)),
    ]  # fmt: skip
    second = table.columns[1].cells[table.rows[0]]
    assert second.over_existing == pytest.approx(1 / 0.62, rel=0.03)
    assert second.share == pytest.approx(0.42 / 0.62, rel=0.03)
    figure = speed_charts.shapes_over_steps(table)
    dashed = [line for line in figure.data if line.line.dash == "dash"]
    assert (len(figure.data), len(dashed)) == (2 * len(table.rows), len(table.rows))
    text = told(open_page("session", id=session, step=3, pane="shapes"))
    assert "step 2 ★" in text
    assert "existing" in text


def test_without_times_the_table_holds_verdicts_and_says_so(store: Store, open_page: OpenPage) -> None:
    text = told(open_page("session", id=softmax_story(store).session, pane="shapes"))
    assert all(words in text for words in ("No times", "incorrect numerical", "not run"))


def waiting_for(store: Store, role: Role) -> str:
    """Return a session whose second step waits at this role's answer."""
    story = RoleStory(store, problem="silu_and_mul", strategy="astra")
    story.begin(held=True, executor=ExecutorKind.CPU)
    story.start_step()
    said = {Role.TESTING: SUITE, Role.PLANNING: "Idea: half2", Role.CODING: "```cpp\n__global__ void k() {}\n```"}
    story.answer(role, said[role], AnsweredBy.PLAYBOOK)
    story.wait_at(role)
    return story.publish().session


def test_a_link_chooses_problem_strategy_and_who_answers_each_role(store: Store) -> None:
    page = framed("start", problem="silu_and_mul", strategy="astra", planning="person", regressions="1")
    assert page.selectbox(key="new-problem").value == "silu_and_mul"
    assert page.selectbox(key="new-strategy-any").value == "astra"
    assert page.selectbox(key="new-role-testing-playbook-any").value == AnsweredBy.PLAYBOOK
    assert page.selectbox(key="new-role-planning-playbook-any").value == AnsweredBy.PERSON
    page.selectbox(key="new-role-coding-playbook-any").select(AnsweredBy.PERSON)
    page.button(key="new-start-any").click().run()
    assert not page.exception
    (session,) = store.sessions()
    settings = views.session_view(store, session).state.settings
    assert (settings.problem_name, settings.strategy, settings.allow_regressions) == ("silu_and_mul", "astra", True)
    assert settings.roles == {Role.PLANNING: AnsweredBy.PERSON, Role.CODING: AnsweredBy.PERSON}
    assert Gate.ANSWER in settings.gates


def test_a_role_for_a_model_needs_one_and_says_which(store: Store) -> None:
    page = framed("start", problem="silu_and_mul", strategy="astra", planning="llm")
    assert page.button(key="new-start-any").disabled
    model_settings.write(Models((ModelSettings("near", "http://127.0.0.1:9/v1", "m"),), {Role.PLANNING: "near"}))
    page = framed("start", problem="silu_and_mul", strategy="astra", planning="llm")
    assert not page.button(key="new-start-any").disabled
    assert "Models by role: planning: near" in shown(page)


def test_a_problem_with_an_existing_kernel_leads_to_the_roles(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="silu_and_mul")
    (link,) = [one for one in page.get("page_link") if one.proto.label == "Make it faster"]
    assert "strategy=astra" in link.proto.query_string
    assert not [one for one in open_page("problems", name="softmax").get("page_link") if "faster" in one.proto.label]


def test_a_long_session_has_columns_for_what_one_can_read(store: Store, open_page: OpenPage) -> None:
    text = told(open_page("session", id=long_story(store, 20).session, pane="shapes"))
    assert "8 steps left out" in text
    assert "step 20" in text
    assert "step 2 " not in text
