"""The strategy `astra` with a model that answers over HTTP like a mediocre one: every fault is seen and recovered."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.printing import session_json
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Outcome, Role, SessionState, SuiteTried
from cutegen_core.records.problem import Problem
from cutegen_core.trajectory.state import State
from tests.model_server import ModelServer, Recorded, reply
from tests.propose.astra.desk import AstraSessions, astra, candidate

STRONG = '```python\nWORKLOADS = {\n    "strong": {"role": "emulator", "tokens": 5, "dim": 17},\n}\n```\n'
WRONG = STRONG.replace("strong", "wrong")
WEAK = STRONG.replace("strong", "weak")
LOOKED = "Memory bound at every shape."
PLAYBOOK, LLM, PERSON = AnsweredBy.PLAYBOOK, AnsweredBy.LLM, AnsweredBy.PERSON


@pytest.fixture
def desk(tmp_path):
    with astra(tmp_path) as made:
        yield made


@pytest.fixture
def serve(monkeypatch):
    """Serves a model with a script for each role; the last answer of a script is given again and again."""
    servers: list[ModelServer] = []

    def start(**scripts: list[str]) -> ModelServer:
        def answer(request: Recorded):
            script = scripts[_role(request.prompt)]
            return reply(script.pop(0) if len(script) > 1 else script[0], size=4000)

        server = ModelServer(answer)
        server.__enter__()
        servers.append(server)
        model_settings.write(Models((ModelSettings("test", server.base_url, "test-model", context_tokens=200_000),)))
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)
    model_settings.path().unlink(missing_ok=True)


def _role(prompt: str) -> str:
    opening = {
        "You write the tests": "testing", "You profile": "profiling", "You plan": "planning", "Carry out": "coding",
        "Mend": "mending", "Make the current": "single",
    }  # fmt: skip
    return next(role for words, role in opening.items() if prompt.startswith(words))


def plan(name: str) -> str:
    return f"Idea: {name}: one line\nShapes: all\nEffect: less time\nRisk: none\n"


def code(desk: AstraSessions, name: str, *lines: str) -> str:
    return f"```cpp\n{candidate(desk.problem, name, *lines)}```\n"


def suites(state: State) -> list[tuple[bool, str]]:
    return [(suite.trusted, suite.message) for suite in state.suites]


def ideas(state: State) -> list[tuple[str, Outcome | None]]:
    return [(step.idea, step.outcome) for step in state.steps]


def roles_of(state: State, step: int) -> list[Role]:
    return [call.role for call in state.steps[step - 1].calls]


def test_four_roles_take_an_existing_kernel_to_a_faster_one(desk, serve) -> None:
    desk.made.timed = True
    server = serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: nothing left"],
        coding=[code(desk, "half2", "// us 50")],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert state.status is SessionState.ACCEPTED, state.reason
    assert ideas(state)[:2] == [("the existing kernel", Outcome.PROMOTED), ("half2: one line", Outcome.PROMOTED)]
    assert [step.author for step in state.steps[:2]] == [Author.IMPORT, Author.MODEL]
    assert roles_of(state, 2) == [Role.TESTING, Role.PROFILING, Role.PLANNING, Role.CODING]
    assert suites(state) == [(True, suites(state)[0][1])]
    assert desk.store.record(Problem, state.problem).workloads[-7].name == "strong"
    assert state.suite_of(state.steps[0]) is None
    assert state.suite_of(state.steps[1]) == state.suites[0]
    prompts = {_role(request.prompt): request.prompt for request in reversed(server.asked)}
    assert LOOKED in prompts["planning"]
    assert "Idea: half2" in prompts["coding"]
    assert "100.00 us" in prompts["profiling"]
    assert "50.00 us" in [r.prompt for r in server.asked if _role(r.prompt) == "profiling"][-1]
    assert state.tokens == sum(
        c.answer.prompt_tokens + c.answer.completion_tokens for s in state.steps for c in s.calls
    )


def test_wrong_tests_go_back_with_the_evidence_until_they_are_right(desk, serve) -> None:
    server = serve(testing=[WRONG, WEAK, STRONG], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    (wrong, why_wrong), (weak, why_weak), (strong, _) = suites(state)
    assert (wrong, weak, strong) == (False, False, True)
    assert why_wrong.startswith("the existing kernel fails it")
    assert re.match(r"3 of 3 mutants of the existing kernel pass it: line \d+: `.+` -> `.*` \(it differs at", why_weak)
    asked = [request.prompt for request in server.asked if _role(request.prompt) == "testing"]
    assert why_wrong in asked[1]
    assert why_weak in asked[2]
    assert state.problem == state.suites[2].problem


def test_after_three_suites_the_problems_own_workloads_judge_and_that_is_said(desk, serve) -> None:
    serve(testing=[WEAK], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert [trusted for trusted, _ in suites(state)] == [False, False, False]
    assert state.problem == state.settings.problem
    assert "the problem's own workloads judge from here on" in suites(state)[-1][1]
    assert state.status is SessionState.ACCEPTED


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I would test many shapes.", "it holds no WORKLOADS"),
        (STRONG.replace('"dim"', '"width"'), "answer:3: workload 'strong' sets 'width', which is no size of this file"),
        (STRONG.replace("17", "0"), "answer:3: workload 'strong' sets dim = 0: a size is at least 1"),
        (
            STRONG.replace("17", "1000000000"),
            "it asks for too much: workload 'strong' has tensors of 30,000,000,000",
        ),
        (STRONG.replace("emulator", "benchmark"), "WORKLOADS has none to test with"),
        (STRONG.replace('"strong"', '"ragged"'), "the problem has a workload 'ragged'"),
        (STRONG.replace("17", "open('x')"), "must be a plain literal"),
    ],
)
def test_what_is_no_suite_is_refused_with_the_line_and_never_run(desk, serve, answer: str, said: str) -> None:
    serve(testing=[answer, STRONG], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    (first, message), (second, _) = suites(state)
    assert (first, second) == (False, True)
    assert said in message


def test_a_planner_that_repeats_itself_is_refused_once_then_the_playbook_plans(desk, serve) -> None:
    server = serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2")],
        coding=[code(desk, "half2"), code(desk, "another"), code(desk, "a third")],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO, max_steps=3))
    assert roles_of(state, 3) == [Role.PROFILING, Role.PLANNING, Role.PLANNING, Role.CODING]
    assert state.steps[2].idea.startswith("vectorised")
    assert "The planner named no new idea, twice" in state.steps[2].plan
    refused = [request.prompt for request in server.asked if "## Refused" in request.prompt]
    assert "the idea was tried in step 2: half2: one line -> promoted" in refused[0]


def test_a_coder_that_breaks_one_shape_only_is_refused_and_goes_on_from_the_best(desk, serve) -> None:
    desk.made.timed = True
    regressing = code(desk, "wide", "// us 50", '// us "16 x 4096"=120')
    server = serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("wide"), plan("narrow"), "DONE: enough"],
        coding=[regressing, code(desk, "narrow", "// us 80")],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert ideas(state)[1:3] == [("wide: one line", Outcome.KEPT), ("narrow: one line", Outcome.PROMOTED)]
    assert state.steps[1].note == "regressed on 16 x 4096 (1.20x slower): timed in turns with the best kernel"
    assert state.steps[2].base == state.steps[0].candidate
    planned = [request.prompt for request in server.asked if _role(request.prompt) == "planning"][1]
    assert "regressed on 16 x 4096" in planned
    assert "16 x 4096 0.12 ms (0.83x the best of then)" in planned


def test_a_regression_that_is_allowed_is_promoted(desk, serve) -> None:
    desk.made.timed = True
    serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("wide"), "DONE: enough"],
        coding=[code(desk, "wide", "// us 50", '// us "16 x 4096"=120')],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO, allow_regressions=True))
    assert ideas(state)[1] == ("wide: one line", Outcome.PROMOTED)


def test_a_kernel_that_fails_is_mended_by_the_coder_a_few_times_and_then_left(desk, serve) -> None:
    broken = [code(desk, f"half2 {n}", "// status COMPILE_ERROR") for n in range(3)]
    server = serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: enough"],
        coding=[broken[0]], mending=broken[1:],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert [(step.repair, step.outcome) for step in state.steps[1:]] == [
        (False, Outcome.FAILED), (True, Outcome.FAILED), (True, Outcome.FAILED), (False, Outcome.UNANSWERED),
    ]  # fmt: skip
    assert roles_of(state, 3) == [Role.CODING]
    mended = [request.prompt for request in server.asked if _role(request.prompt) == "mending"]
    assert "Its intent: half2: one line" in mended[0]
    assert "as scripted" in mended[0]
    assert state.steps[4].base == state.steps[0].candidate


def test_a_reply_without_a_kernel_is_sent_back_once_within_the_step(desk, serve) -> None:
    server = serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: enough"],
        coding=["I would use half2.", code(desk, "half2")],
    )  # fmt: skip
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert roles_of(state, 2)[-2:] == [Role.CODING, Role.CODING]
    assert state.steps[1].outcome is Outcome.PROMOTED
    assert "neither a kernel file" in server.asked[4].prompt


def test_an_existing_kernel_that_fails_ends_the_session_with_the_reason(desk) -> None:
    broken = "// broken\n// candidate\n// status INCORRECT_NUMERICAL\n"
    desk.problem = replace(desk.problem, existing=broken)
    state = desk.go(desk.start(answered_by=PLAYBOOK, autonomy=Autonomy.AUTO))
    assert state.status is SessionState.STOPPED
    assert "the existing kernel does not pass" in state.reason


def test_the_playbook_answers_all_four_roles_without_a_model(desk) -> None:
    desk.store.put("")
    state = desk.go(desk.start(answered_by=PLAYBOOK, autonomy=Autonomy.AUTO))
    assert [suite.trusted for suite in state.suites] == [False, False, False], "no workload is strong here"
    assert [step.idea.split(":")[0] for step in state.steps[:3]] == ["the existing kernel", "vectorised", "tuned"]
    assert state.tokens == 0
    assert {call.answer.by for step in state.steps for call in step.calls if call.answer} == {PLAYBOOK}


def test_roles_are_mixed_freely(desk, serve) -> None:
    """Testing by a person, profiling by the playbook, planning by a model, coding by the playbook."""
    server = serve(planning=[plan("tuned"), "DONE: enough"])
    roles = {Role.TESTING: PERSON, Role.PLANNING: LLM}
    session = desk.start(answered_by=PLAYBOOK, roles=roles, autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert (state.gate.gate, state.gate.role) == (Gate.REPLY, Role.TESTING)
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text=STRONG)
    assert state.status is SessionState.ACCEPTED
    assert [call.answer.by for call in state.steps[1].calls] == [PERSON, PLAYBOOK, LLM, PLAYBOOK]
    assert (state.steps[1].author, len(server.asked)) == (Author.PLAYBOOK, 2)


def test_each_role_may_have_a_model_of_its_own_and_the_budget_counts_all(desk, serve) -> None:
    server = serve(testing=[STRONG], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    named = tuple(
        ModelSettings(name, server.base_url, name, context_tokens=200_000, max_output_tokens=1000)
        for name in ("rest", "testing", "planning")
    )
    model_settings.write(Models(named, {Role.TESTING: "testing", Role.PLANNING: "planning"}))
    state = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO))
    assert [request.body["model"] for request in server.asked] == ["testing", "rest", "planning"]
    few = desk.go(desk.start(answered_by=LLM, autonomy=Autonomy.AUTO, max_tokens=state.tokens - 1))
    assert few.status is SessionState.EXHAUSTED


def test_a_plan_by_hand_needs_no_form(desk) -> None:
    session = desk.start(answered_by=PLAYBOOK, roles={Role.PLANNING: PERSON}, autonomy=Autonomy.AUTO)
    desk.go(session)
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text="take the vectorised one\nfor all shapes")
    assert state.steps[1].idea == "take the vectorised one"
    assert state.steps[1].outcome is Outcome.PROMOTED


@pytest.mark.parametrize("role", [Role.TESTING, Role.PROFILING, Role.PLANNING, Role.CODING])
def test_every_roles_answer_can_be_sent_back_and_replaced(desk, role: Role) -> None:
    answers = {
        Role.TESTING: STRONG, Role.PROFILING: LOOKED, Role.PLANNING: plan("by hand"),
        Role.CODING: code(desk, "by hand"),
    }  # fmt: skip
    session = desk.start(answered_by=PLAYBOOK, gates=(Gate.ANSWER,))
    state = desk.go(session)
    while state.gate.role is not role:
        state = desk.approve(session)
    asked = len(state.steps[-1].calls)
    state = desk.decide(session, DecisionKind.REDIRECT, text="use the tuned one")
    assert (state.gate.gate, state.gate.role) == (Gate.ANSWER, role)
    assert state.steps[-1].calls[asked - 1].dropped == "use the tuned one"
    again = desk.store.text(state.steps[-1].calls[-1].answer.reply)
    assert "in flight a thread" in again or "The playbook cannot follow 'use the tuned one' here" in again
    step = len(state.steps)
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.ANSWER, text=answers[role])
    done = [call.answer.by for call in state.steps[step - 1].calls if call.role is role and not call.dropped]
    assert PERSON in done
    if role is Role.CODING:
        assert state.steps[step - 1].author is Author.PERSON


def test_a_check_that_is_stopped_goes_on_where_it_was(desk, serve) -> None:
    serve(testing=[STRONG], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    session = desk.start(answered_by=LLM, autonomy=Autonomy.AUTO)
    stop_after(desk, session, 4)
    state = desk.go(session)
    assert (state.status, state.suites) == (SessionState.STOPPED, ())
    tried = len(desk.made.tried)
    state = desk.decide(session, DecisionKind.RESUME)
    assert (state.status, state.suites[0].trusted) == (SessionState.ACCEPTED, True)
    mutants = [text for text in desk.made.tried if "// status" in text]
    assert len(mutants) == len(set(mutants)) == 3, "no mutant was tried twice"
    assert len(desk.made.tried) > tried


def stop_after(desk: AstraSessions, session: str, trials: int) -> None:
    """Submit a Stop once so many sources were tried."""
    seen = desk.made.tried

    class Counting(list):
        def append(self, text: object) -> None:
            super().append(text)
            if len(self) == trials:
                from cutegen_core.records.decision import Decision

                desk.store.submit(session, Decision(DecisionKind.STOP))

    desk.made.tried = Counting(seen)


def test_the_events_say_what_happened_to_each_suite(desk, serve) -> None:
    serve(testing=[WRONG, STRONG], profiling=[LOOKED], planning=["DONE: enough"], coding=["none"])
    session = desk.start(answered_by=LLM, autonomy=Autonomy.AUTO)
    desk.go(session)
    told = [r.event for r in desk.store.events(session) if isinstance(r.event, SuiteTried)]
    assert [(event.step, event.trusted, bool(event.result)) for event in told] == [(2, False, True), (2, True, True)]


def test_the_twin_plans_and_codes_in_one_answer_and_repeats_are_refused_once(desk, serve) -> None:
    desk.made.timed = True
    both = plan("half2") + code(desk, "half2", "// us 50")
    other = plan("other") + code(desk, "other", "// us 40")
    server = serve(single=[both, plan("half2") + code(desk, "again"), other, "DONE: enough"])
    state = desk.go(desk.start(strategy="astra-single", answered_by=LLM, autonomy=Autonomy.AUTO))
    assert [idea for idea, _ in ideas(state)] == ["the existing kernel", "half2: one line", "other: one line", ""]
    assert roles_of(state, 3) == [Role.PROPOSER, Role.PROPOSER]
    assert "the idea was tried in step 2" in server.asked[2].prompt
    assert (state.suites, state.steps[1].outcome) == ((), Outcome.PROMOTED)


def test_both_sessions_of_the_comparison_are_one_table(desk, serve) -> None:
    desk.made.timed = True
    serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: enough"],
        coding=[code(desk, "half2", "// us 50")], single=[plan("one") + code(desk, "one", "// us 80"), "DONE: enough"],
    )  # fmt: skip
    runs = []
    for agents, strategy in (("four roles", "astra"), ("one role", "astra-single")):
        session = desk.start(strategy=strategy, answered_by=LLM, autonomy=Autonomy.AUTO)
        desk.go(session)
        runs.append(views.agent_run(desk.store, session, agents))
    assert [(run.steps, run.failed, run.verdict) for run in runs] == [(2, 0, "PASSED"), (2, 0, "PASSED")]
    assert [shape.latency_us for run in runs for shape in run.shapes[:1]] == [50.0, 80.0]
    assert all(run.tokens for run in runs)
    assert runs[0].suite.startswith("trusted: ")
    lines = list(views.agent_lines(runs))
    assert lines[0].split() == ["four", "roles", "one", "role"]
    assert any(line.startswith("16 x 4096") and "50.00 us" in line and "80.00 us" in line for line in lines)


def test_a_recorded_session_with_roles_is_replayed_with_its_suite(desk, serve, tmp_path) -> None:
    server = serve(
        testing=[WEAK, STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: enough"],
        coding=[code(desk, "half2")],
    )  # fmt: skip
    recorded = desk.start(answered_by=LLM, autonomy=Autonomy.AUTO)
    whole = desk.go(recorded)
    asked = len(server.asked)
    state = desk.go(desk.start(answered_by=AnsweredBy.RECORDING, recording=recorded, autonomy=Autonomy.AUTO))
    assert (state.status, len(server.asked)) == (SessionState.ACCEPTED, asked)
    assert suites(state) == suites(whole)
    assert (state.problem, state.best) == (whole.problem, whole.best)
    assert roles_of(state, 2) == roles_of(whole, 2)


def test_a_trial_of_the_problems_own_workloads_is_not_used_for_a_suite(desk, serve) -> None:
    written = code(desk, "half2")
    serve(
        testing=[STRONG], profiling=[LOOKED], planning=[plan("half2"), "DONE: enough"], coding=[written],
        single=[plan("half2") + written, "DONE: enough"],
    )  # fmt: skip
    source = candidate(desk.problem, "half2")
    for strategy, times in (("astra-single", 1), ("astra", 2)):
        session = desk.start(strategy=strategy, answered_by=LLM, autonomy=Autonomy.AUTO)
        assert desk.go(session).status is SessionState.ACCEPTED
        assert desk.made.tried.count(source) == times, "stored under the problem that judged it"
    rows = session_json(desk.store, session)
    assert [row["suite_step"] for row in rows["steps"]] == [None, 2, None]
    assert [answer["role"] for answer in rows["steps"][1]["answers"]] == ["testing", "profiling", "planning", "coding"]


def test_a_person_may_ask_for_a_sweep_whoever_plans(desk) -> None:
    session = desk.start(answered_by=PLAYBOOK, gates=())
    state = desk.go(session)
    assert (state.gate.gate, state.steps[2].idea.split(":")[0]) == (Gate.INSTRUCTION, "tuned")
    state = desk.decide(session, DecisionKind.REDIRECT, text="sweep it")
    assert state.steps[4].sweep
    assert state.steps[4].idea.startswith("tune")
    assert roles_of(state, 5) == []


def test_the_playbooks_other_kernels_are_offered_as_instructions(desk) -> None:
    session = desk.start(answered_by=PLAYBOOK, gates=(Gate.PROMOTION,))
    desk.approve_until(session, 2)
    view = views.session_view(desk.store, session)
    assert views.chips(desk.store, view, None) == ("naive", "tuned")
    state = desk.decide(session, DecisionKind.REDIRECT, text="tuned")
    assert state.steps[2].idea.startswith("tuned")


def test_asking_for_the_current_kernel_again_is_answered_with_what_else_there_is(desk) -> None:
    session = desk.start(answered_by=PLAYBOOK, gates=(Gate.PROMOTION,))
    desk.approve_until(session, 2)
    desk.approve(session)
    state = desk.decide(session, DecisionKind.REDIRECT, text="vectorised")
    assert state.gate.gate is Gate.INSTRUCTION
    assert "the current kernel is 'vectorised' already; say one of" in state.gate.note
