"""A question behind the exchange that wrote the kernel: a server plays the model; strategy, client and store are real,
trials are scripted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import pairwise

import pytest

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models
from cutegen_core.propose.turns import behind, turns
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Outcome
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
from cutegen_core.trajectory.migrations import Payload, rewrite_events
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from tests.model_server import ModelServer, Recorded, reply
from tests.session.asking import Sessions, kernel, offer

SEED = offer("seed", kernel(1, "estimate 100"))
DONE = "DONE: nothing left"
WHOLE = "## Current kernel, the best so far"
Serve = Callable[..., ModelServer]


def change(idea: str, old: str, new: str) -> str:
    return f"Idea: {idea}\nEffect: faster\nRisk: none\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def better(number: int, old: int, new: int) -> str:
    """A change of the kernel's last line: its estimate."""
    return change(f"idea {number}", f"// estimate {old}", f"// estimate {new}")


def roles(request: Recorded) -> str:
    """The messages of a request: "u" of the user, "a" of the assistant."""
    return "".join(message["role"][0] for message in request.body["messages"])


def talk(server: ModelServer, first: int = 0, last: int | None = None) -> list[str]:
    return [roles(request) for request in server.asked][first:last]


def prompts(desk: Sessions, state: State) -> list[str]:
    return [desk.store.text(call.prompt) for step in state.steps for call in step.calls]


def begin(desk: Sessions, conversation: bool = True, **options: object) -> str:
    return desk.begin(width=1, max_steps=20, effort={"conversation": conversation}, **options)


def test_a_kernel_that_was_promoted_is_gone_on_from(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    state = desk.go(begin(desk))
    assert [step.outcome for step in state.steps[:3]] == [Outcome.PROMOTED] * 3
    assert talk(server, 0, 4) == ["u", "uau", "uauau", "uauauau"]
    sent = [request.body["messages"] for request in server.asked]
    assert all(later[:-2] == earlier for earlier, later in pairwise(sent[:4])), (
        "what stood there is the server's prefix"
    )
    assert sent[2][-2]["content"] == better(2, 100, 90).strip()
    question = server.asked[2].question
    assert WHOLE not in question
    assert "- step 2: idea 2 -> promoted; estimate 90 µs" in question
    assert "It is now the current kernel" in question
    assert desk.store.text(state.best or "").endswith("// kernel 1\n// estimate 80\n")


def test_the_page_is_given_the_conversation_as_it_was_sent(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), DONE)
    state = desk.go(begin(desk))
    shown = prompts(desk, state)[2]
    assert shown.startswith("A conversation;")
    assert [{"role": turn.speaker, "content": turn.text} for turn in turns(shown)] == server.asked[2].body["messages"]


def test_off_shows_the_kernel_in_every_prompt(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    desk.go(begin(desk, conversation=False))
    assert set(talk(server)) == {"u"}
    assert all(WHOLE in request.prompt for request in server.asked[1:])


def test_a_failure_is_repaired_in_the_conversation(desk: Sessions, serve: Serve) -> None:
    spoiled = change("wrong", "// estimate 100", "// status COMPILE_ERROR")
    repaired = change("wrong", "// status COMPILE_ERROR", "// estimate 50")
    server = serve(SEED, spoiled, repaired, DONE)
    state = desk.go(begin(desk))
    assert talk(server, 0, 4) == ["u", "uau", "uauau", "uauauau"]
    question = server.asked[2].question
    assert "## This step: a repair" in question
    assert "as scripted" in question
    assert state.steps[2].outcome is Outcome.PROMOTED


def test_a_diagnosis_and_the_repair_after_it_stand_in_the_conversation(desk: Sessions, serve: Serve) -> None:
    spoiled = change("wrong", "// estimate 100", "// status TIMEOUT")
    repaired = change("wrong", "// status TIMEOUT", "// estimate 50")
    server = serve(SEED, spoiled, "Cause: it never ends\nEvidence: the time\nFix: end it", repaired, DONE)
    state = desk.go(begin(desk))
    assert talk(server, 0, 4) == ["u", "uau", "uauau", "uauauau"]
    diagnosis, repair = (server.asked[number].question for number in (2, 3))
    assert "Do not write the new kernel yet" in diagnosis
    assert "as scripted" in diagnosis
    assert "as scripted" not in repair, "the evidence stands there already"
    assert state.steps[2].outcome is Outcome.PROMOTED
    assert talk(server, 4, 5) == ["uauauauau"]


def test_a_kernel_that_was_not_promoted_is_left_behind(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 200), better(3, 100, 90), DONE)
    state = desk.go(begin(desk))
    assert talk(server, 0, 4) == ["u", "uau", "uauau", "uauauau"]
    assert "It was not taken. The current kernel is again the one before that reply" in server.asked[2].question
    assert "not measured; estimate 200 µs" in server.asked[2].question
    assert desk.store.text(state.best or "").endswith("// estimate 90\n"), "the change fits the kernel before it"


def test_changes_that_did_not_fit_show_the_kernel_again(desk: Sessions, serve: Serve) -> None:
    misfit = change("idea 3", "// estimate 77", "// estimate 70")
    server = serve(SEED, better(2, 100, 90), misfit, misfit, better(4, 90, 60), DONE)
    state = desk.go(begin(desk))
    assert state.steps[2].status is Status.PATCH_FAILED
    assert talk(server, 0, 6) == ["u", "uau", "uauau", "uauau", "u", "uau"]
    assert "Your answer could not be used" in server.asked[3].question
    assert "// estimate 90" in server.asked[4].prompt


def test_a_kernel_is_shown_whole_again_after_four_replies(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, *(better(n, 100 - 5 * (n - 2), 95 - 5 * (n - 2)) for n in range(2, 8)), DONE)
    desk.go(begin(desk))
    assert talk(server, 0, 8) == ["u", "uau", "uauau", "uauauau", "uauauauau", "u", "uau", "uauau"]


def test_a_small_context_begins_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), DONE, context_tokens=5500, max_output_tokens=100)
    desk.go(begin(desk))
    assert talk(server, 0, 3) == ["u", "u", "u"]


def test_prices_that_make_kept_tokens_dear_begin_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), DONE, price_in_per_million=1.0, price_out_per_million=4.0)
    desk.go(begin(desk))
    assert talk(server, 0, 3) == ["u", "u", "u"], "without a price of their own, kept tokens cost what others do"


def test_a_price_of_kept_tokens_goes_on(desk: Sessions, serve: Serve) -> None:
    prices = {"price_in_per_million": 1.0, "price_out_per_million": 4.0, "price_cached_per_million": 0.1}
    server = serve(SEED, better(2, 100, 90), DONE, **prices)
    desk.go(begin(desk))
    assert talk(server, 0, 3) == ["u", "uau", "uauau"]


@pytest.mark.parametrize(("cached", "then"), [(99, "uauau"), (60, "u"), (None, "uauau")])
def test_the_servers_own_count_says_whether_it_keeps_replies(desk, serve, cached, then) -> None:  # type: ignore[no-untyped-def]
    """The played server counts 100 tokens of every prompt, and so many of them as kept."""
    long = [f"{'It loads more at once. ' * 300}\n{offer(str(n), kernel(n, f'estimate {100 - n}'))}" for n in (2, 3)]
    server = serve(SEED, *(reply(text, size=500, cached=cached) for text in long), DONE)
    desk.go(begin(desk))
    assert talk(server, 0, 3) == ["u", "uau", then]


def test_a_persons_kernel_begins_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=(Gate.PROMOTION,))
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    assert talk(server, 0, 3) == ["u", "uau", "uauau"]
    edited = f"{desk.store.text(state.steps[-1].candidate or '')}// by hand\n"
    desk.decide(session, DecisionKind.EDIT, source=edited, candidate=state.steps[-1].candidate)
    desk.approve(session)
    assert talk(server, 3) == ["u"]
    assert "// by hand" in server.asked[3].prompt


def test_a_person_may_change_the_message_before_it_is_sent(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=(Gate.PROMPT,))
    state = desk.go(session)
    state = desk.approve(session)
    assert state.gate is not None
    shown = desk.store.text(state.gate.prompt)
    assert [turn.speaker for turn in turns(shown)] == ["user", "assistant", "user"]
    desk.decide(session, DecisionKind.APPROVE, gate=Gate.PROMPT, text=f"{shown}Use shared memory.\n")
    assert roles(server.asked[1]) == "uau"
    assert server.asked[1].prompt.endswith("Use shared memory.\n")
    desk.approve(session)
    assert talk(server, 2) == ["u"], "what a person wrote into a prompt is not said again in later ones"


def test_a_branch_from_an_earlier_kernel_begins_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE, better(4, 90, 70), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=())
    desk.go(session)
    desk.decide(session, DecisionKind.REWIND, step=2)
    assert talk(server, 0, 6) == ["u", "uau", "uauau", "uauauau", "u", "uau"]


def test_another_model_begins_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=(Gate.PROMOTION,))
    desk.go(session)
    desk.approve(session)
    model_settings.write(Models(tuple(reversed(model_settings.read().settings))))
    desk.approve(session)
    assert [request.body["model"] for request in server.asked] == ["small", "small", "large"]
    assert talk(server, 0, 3) == ["u", "uau", "u"]


def test_several_candidates_a_step_begin_afresh(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, SEED, better(2, 100, 90), better(3, 100, 80), DONE)
    desk.go(desk.begin(width=2, max_steps=3))
    assert set(talk(server)) == {"u"}


def test_instructions_are_told_in_the_conversation(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=(Gate.PROMOTION,))
    desk.go(session)
    desk.approve(session)
    desk.decide(session, DecisionKind.STANDING, text="No atomics, ever.")
    desk.approve(session)
    assert talk(server, 0, 3) == ["u", "uau", "uauau"]
    assert "No atomics, ever." in server.asked[2].question


def test_thinking_is_not_said_again(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, f"<think>perhaps so</think>\n{better(2, 100, 90)}", DONE)
    desk.go(begin(desk))
    assert server.asked[2].body["messages"][3]["content"] == better(2, 100, 90).strip()


def test_a_replay_shows_the_same_conversation(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    recorded = begin(desk)
    first = desk.go(recorded)
    asked = len(server.asked)
    desk.problem = desk.store.record(Problem, first.settings.problem)
    again = desk.go(desk.start(answered_by=AnsweredBy.RECORDING, autonomy=Autonomy.AUTO, recording=recorded))
    assert len(server.asked) == asked
    sent = prompts(desk, again)
    assert [len(turns(prompt)) for prompt in sent[:3]] == [1, 3, 5]
    assert sent == prompts(desk, first)[: len(sent)]
    assert again.best == first.best


@pytest.mark.parametrize("text", ["", "a\n", "\n==== user\nb", "A conversation; a line\n"])
def test_a_conversation_is_read_back_to_the_letter(text: str) -> None:
    assert [turn.text for turn in turns(text)] == [text]
    twice = behind(behind(text, "one\n", "\ntwo"), "three", "four\n")
    assert [turn.text for turn in turns(twice)] == [text, "one\n", "\ntwo", "three", "four\n"]


def without_later_fields(payload: Payload) -> Payload:
    """The event as a store wrote it that knew neither conversations nor bank conflicts."""
    event = {key: value for key, value in payload.items() if key != "bank_conflicts"}
    if "settings" in event:
        effort = {key: value for key, value in event["settings"]["effort"].items() if key != "conversation"}
        event["settings"] = {**event["settings"], "effort": effort}
    return event


def test_a_session_of_an_older_store_goes_on_in_a_conversation(desk: Sessions, serve: Serve) -> None:
    server = serve(SEED, better(2, 100, 90), better(3, 90, 80), DONE)
    session = begin(desk, autonomy=Autonomy.STEP, gates=(Gate.PROMOTION,))
    desk.go(session)
    desk.store.close()
    db = sqlite3.connect(desk.store.path, isolation_level=None)
    rewrite_events(db, without_later_fields)
    kept = str(db.execute("SELECT payload FROM events").fetchall())
    db.close()
    assert "conversation" not in kept
    assert "bank_conflicts" not in kept
    desk.store = Store(desk.store.path)
    desk.approve(session)
    assert talk(server, 0, 2) == ["u", "uau"]
