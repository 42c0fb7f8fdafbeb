"""Several candidates a step: a server plays the model; strategy, client and store are real, trials are scripted."""

from __future__ import annotations

import itertools
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.commands import sessions
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort, Gate
from cutegen_core.records.errors import StaleDecisionError, UsageError
from cutegen_core.records.event import AnsweredBy, Outcome, SessionState
from cutegen_core.records.trial import Status
from cutegen_core.session import decisions
from cutegen_core.trajectory.state import State
from tests.model_server import ModelServer, Recorded, reply
from tests.session.asking import MODELS, Sessions, kernel, offer
from tests.session.mortal import dies, make_mortal

SEEDS = [offer(f"seed {n}", kernel(n, f"estimate {50 - n}")) for n in (1, 2, 3)]
BETTER = [
    offer("vector loads", kernel(4, "estimate 30")),
    offer("more threads", kernel(5, "estimate 20")),
    offer("a mistake", kernel(6, "status INCORRECT_NUMERICAL", "estimate 1")),
]
DONE = "DONE: nothing left"


def ideas(state: State, step: int) -> list[str]:
    return [other.idea for other in state.steps[step].alternatives]


def test_the_best_of_three_is_kept_and_the_others_stay_in_the_record(
    desk: Sessions, serve: Callable[..., ModelServer]
) -> None:
    server = serve(*SEEDS, *BETTER)
    state = desk.go(desk.begin())
    seed, step = state.steps[:2]
    assert (seed.idea, step.idea) == ("seed 3", "more threads"), "the lowest estimate among those that are right"
    assert [step.outcome for step in (seed, step)] == [Outcome.PROMOTED, Outcome.PROMOTED]
    assert ideas(state, 1) == ["vector loads", "more threads", "a mistake"]
    assert [a.tried and a.tried.status for a in step.alternatives] == [
        Status.PASSED, Status.PASSED, Status.INCORRECT_NUMERICAL,
    ]  # fmt: skip
    assert [desk.store.text(a.candidate).splitlines()[-1] for a in step.alternatives[:2]] == [
        "// estimate 30", "// estimate 20",
    ]  # fmt: skip
    assert [call.alternative for call in step.calls] == [1, 2, 3]
    assert len(server.asked) == 6
    assert state.tokens == sum(call.tokens for s in state.steps for call in s.calls) > 600, (
        "all candidates are paid for"
    )
    assert len(desk.made.tried) == 6, "the kept one is not tried twice where nothing is timed"
    told = [request.prompt.count("## Other candidates of this step") for request in server.asked]
    assert told == [0, 1, 1, 0, 1, 1]
    assert "- vector loads\n- more threads\n" in server.asked[5].prompt
    first, second = server.asked[3].prompt, server.asked[4].prompt
    assert second.startswith(first.rstrip()), "what is new stands behind what a server may keep"


def test_a_terminal_and_a_script_are_told_of_every_candidate(desk, serve, capsys) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, *BETTER)
    session = desk.begin()
    desk.go(session)
    assert sessions.show(Namespace(session=session, json=False)) == 0
    told = capsys.readouterr().out
    assert "        candidate 1: vector loads: PASSED, estimate 30 µs\n" in told
    assert "      * candidate 2: more threads: PASSED, estimate 20 µs\n" in told
    assert "        candidate 3: a mistake: INCORRECT_NUMERICAL, as scripted\n" in told
    sessions.show(Namespace(session=session, json=True))
    step = json.loads(capsys.readouterr().out)["steps"][1]
    assert [(row["number"], row["status"], row["kept"]) for row in step["candidates"]] == [
        (1, "PASSED", False), (2, "PASSED", True), (3, "INCORRECT_NUMERICAL", False),
    ]  # fmt: skip


def test_models_write_in_turn(desk: Sessions, serve: Callable[..., ModelServer]) -> None:
    server = serve(*SEEDS, *BETTER)
    state = desk.go(desk.begin(effort={"models": MODELS}))
    assert [request.body["model"] for request in server.asked] == ["small", "large", "small"] * 2
    assert [a.model for a in state.steps[1].alternatives] == ["small", "large", "small"]


def test_a_key_of_the_environment_goes_to_the_server_of_the_first_model_only(desk, serve, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("CUTEGEN_API_KEY", "secret-of-one-server")
    with ModelServer(*(reply(text, size=500) for text in SEEDS)) as other:
        server = serve(*SEEDS)
        small, large = model_settings.read().settings
        model_settings.write(Models((small, replace(large, base_url=other.base_url))))
        desk.go(desk.begin(width=2, max_steps=1, effort={"models": MODELS}))
        assert server.asked[0].headers["Authorization"] == "Bearer secret-of-one-server"
        assert len(other.asked) == 1
        assert "secret" not in str(other.asked[0].headers)


def test_a_step_whose_candidates_all_fail_goes_on_with_the_one_that_got_furthest(desk, serve) -> None:  # type: ignore[no-untyped-def]
    texts = [
        "I have no kernel.", "Still none.",
        offer("does not compile", kernel(1, "status COMPILE_ERROR")), offer("wrong", kernel(2, "status TIMEOUT")),
        "Cause: it never ends", offer("mended", kernel(3)), DONE,
    ]  # fmt: skip
    serve(*texts)
    state = desk.go(desk.begin(max_steps=9))
    first, repair = state.steps[:2]
    assert [a.tried and a.tried.status for a in first.alternatives] == [
        Status.UNPARSED, Status.COMPILE_ERROR, Status.TIMEOUT,
    ]  # fmt: skip
    assert (first.status, first.outcome) == (Status.TIMEOUT, Outcome.FAILED)
    assert (repair.repair, repair.width, repair.alternatives) == (True, 1, ()), "a repair is about one kernel"
    assert repair.outcome is Outcome.PROMOTED


def test_replies_without_a_kernel_only(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve("I have no kernel.")
    state = desk.go(desk.begin(width=2, max_steps=1))
    assert (state.steps[0].status, state.status) == (Status.UNPARSED, SessionState.EXHAUSTED)


def test_the_same_text_once_more_shares_its_verdict(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(SEEDS[0])
    state = desk.go(desk.begin(max_steps=1))
    assert len({a.candidate for a in state.steps[0].alternatives}) == 1
    assert len(desk.made.tried) == 1


def test_a_word_that_nothing_is_left_ends_the_session_only_where_no_candidate_has_a_kernel(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, DONE, BETTER[1], DONE)
    state = desk.go(desk.begin(max_steps=9))
    step = state.steps[1]
    assert [(a.candidate != "", "nothing left" in a.note) for a in step.alternatives] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert step.outcome is Outcome.PROMOTED
    assert state.status is SessionState.ACCEPTED, "then all three say so"


def test_gates_open_for_the_kept_candidate_and_a_person_may_choose_another(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, *BETTER)
    session = desk.begin(autonomy=Autonomy.STEP, gates=(Gate.DIFF, Gate.PROMOTION))
    state = desk.go(session)
    assert (state.gate.gate, state.steps[0].idea) == (Gate.DIFF, "seed 3")
    other = state.steps[0].alternatives[0]
    state = desk.decide(session, DecisionKind.CHOOSE, step=1, candidate=other.candidate)
    assert (state.gate.gate, state.steps[0].idea, state.steps[0].status) == (Gate.PROMOTION, "seed 1", Status.PASSED)
    again = state.steps[0].alternatives[1]
    state = desk.decide(session, DecisionKind.CHOOSE, step=1, candidate=again.candidate)
    assert (state.gate.gate, state.gate.candidate) == (Gate.PROMOTION, again.candidate)
    state = desk.approve(session)
    assert (state.best, len(state.steps), state.steps[1].base) == (again.candidate, 2, again.candidate)


def test_another_candidate_of_a_closed_step_becomes_a_step_of_the_persons(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, *BETTER)
    session = desk.begin()
    state = desk.go(session)
    other = state.steps[1].alternatives[0]
    state = desk.decide(session, DecisionKind.CHOOSE, step=2, candidate=other.candidate)
    last = state.steps[2]
    assert (last.idea, last.parent) == ("vector loads (candidate 1 of step 2)", state.steps[0].candidate)
    assert (last.outcome, state.best) == (Outcome.PROMOTED, other.candidate), "what a person wants counts without times"


@pytest.mark.parametrize(("step", "candidate"), [(2, ""), (2, "none such"), (9, "none such"), (1, "of another step")])
def test_a_choice_of_nothing_is_refused(desk, serve, step: int, candidate: str) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, BETTER[0], "no kernel", "still none", BETTER[1])
    session = desk.begin(max_steps=2)
    state = desk.go(session)
    key = {"": state.steps[1].alternatives[1].candidate, "of another step": state.steps[1].candidate}.get(
        candidate, candidate
    )
    decision = Decision(DecisionKind.CHOOSE, state.seq, step=step, candidate=key)
    with pytest.raises(StaleDecisionError, match="no such kernel"):
        decisions.check(state, decision)


def test_a_replay_keeps_what_the_person_chose(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(*SEEDS, DONE, *BETTER[:2])
    session = desk.begin(autonomy=Autonomy.STEP, gates=(Gate.DIFF,))
    other = desk.go(session).steps[0].alternatives[0]
    chosen = desk.decide(session, DecisionKind.CHOOSE, step=1, candidate=other.candidate)
    desk.decide(session, DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO)
    recorded = desk.go(session)
    assert recorded.steps[0].candidate == chosen.steps[0].candidate
    again = desk.go(
        desk.start(answered_by=AnsweredBy.RECORDING, recording=session, autonomy=Autonomy.AUTO, max_steps=99)
    )
    assert again.status is SessionState.ACCEPTED, again.reason
    for old, new in zip(recorded.steps, again.steps, strict=False):
        assert (new.candidate, new.idea) == (old.candidate, old.idea)
        assert [(a.candidate, a.idea, a.note) for a in new.alternatives] == [
            (a.candidate, a.idea, a.note) for a in old.alternatives
        ]
        assert [c.prompt for c in new.calls] == [c.prompt for c in old.calls]


def test_a_budget_that_ends_within_a_step_keeps_what_was_written(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(SEEDS[0], *SEEDS, max_output_tokens=4000)
    alone = desk.go(desk.begin(width=1, max_steps=1))
    state = desk.go(desk.begin(max_tokens=alone.steps[0].calls[0].reserved_tokens + 50))
    step = state.steps[0]
    assert [bool(a.candidate) for a in step.alternatives] == [True, False, False]
    assert "are left. Raise the token budget" in step.alternatives[1].note
    assert step.outcome is Outcome.PROMOTED
    assert state.status is SessionState.EXHAUSTED


def test_width_one_records_nothing_new(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(SEEDS[0], BETTER[0])
    state = desk.go(desk.begin(width=1))
    assert all(step.alternatives == () and step.width == 1 for step in state.steps)
    assert [step.outcome for step in state.steps[:2]] == [Outcome.PROMOTED, Outcome.PROMOTED]


def test_several_candidates_need_a_model_that_answers(desk, serve) -> None:  # type: ignore[no-untyped-def]
    serve(DONE)
    for who in (AnsweredBy.PLAYBOOK, AnsweredBy.PERSON):
        with pytest.raises(UsageError, match="several candidates a step need a language model"):
            desk.begin(answered_by=who)
    with pytest.raises(UsageError, match="no model is called 'nobody'"):
        desk.begin(effort={"models": ("nobody",)})
    with pytest.raises(ValueError, match="between 1 and 8 candidates, not 9"):
        Effort(width=9)


@pytest.mark.parametrize(
    ("before", "stride"),
    [
        (False, 37),
        pytest.param(True, 1, marks=pytest.mark.thorough),
        pytest.param(False, 1, marks=pytest.mark.thorough),
    ],
    ids=["after the commit", "before any", "after any"],
)
def test_killed_at_any_commit_no_answer_is_paid_twice(tmp_path, monkeypatch, before: bool, stride: int) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))

    def play(request: Recorded):  # type: ignore[no-untyped-def]
        """The same prompt gets the same answer."""
        tried = (
            request.prompt.count("\n- seed ") + request.prompt.count("\n- vector") + request.prompt.count("\n- more")
        )
        script = BETTER if "// kernel 3" in request.prompt else SEEDS
        return reply(script[tried - ("step 1: seed" in request.prompt)], size=500)

    with ModelServer(play) as server:
        model_settings.write(Models((ModelSettings("played", server.base_url, "test-model"),)))
        whole = finish(tmp_path)
        assert [step.idea for step in whole.steps[:2]] == ["seed 3", "more threads"]
        for boundary in itertools.count(1, stride):
            folder = tmp_path / f"killed-{boundary}"
            folder.mkdir()
            sent = len(server.asked)

            def to_the_end(folder: Path = folder, boundary: int = boundary) -> None:
                drive(folder, boundary, before=before)

            if not dies(to_the_end):
                break
            state = finish(folder)
            lost = [c for step in state.steps for c in step.calls if c.answer and c.answer.error]
            assert story(state) == story(whole)
            assert len(server.asked) - sent <= 6 + len(lost)
            assert len(lost) <= 1
    assert boundary > 30


def drive(folder: Path, at: int = 0, *, before: bool = False) -> State:
    desk = Sessions(folder, ())
    if at:
        make_mortal(desk.store, at, before=before)
    try:
        known = desk.store.sessions()
        session = known[0] if known else desk.begin()
        state = desk.go(session)
        if state.status is SessionState.INTERRUPTED:
            state = desk.decide(session, DecisionKind.RESUME)
        return state
    finally:
        desk.store.close()


finish = drive


def story(state: State) -> list[object]:
    return [
        (s.candidate, s.outcome, [(a.candidate, a.tried and a.tried.status) for a in s.alternatives])
        for s in state.steps
    ]
