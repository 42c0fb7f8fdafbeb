"""The model loop against everything a server, a network and a person can do to it.

A real HTTP server plays the model; the session, the store, the compiler and the emulator are the real ones.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from cutegen_core import cli, engine, views
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, ModelCalled, Outcome, SessionState
from cutegen_core.records.trial import Status
from cutegen_core.session.proposing import LOST_CALL
from cutegen_core.share.exports import export
from tests import model_server as plays
from tests.few_runs import few_runs, one_value
from tests.model_server import ModelServer, reply
from tests.patience import PATIENCE_S, SOON_S, wait_until
from tests.places import DATA, ROOT
from tests.session.real_sessions import loop

TUNABLE = (DATA / "relu.cu").read_text()
RELU = one_value(TUNABLE)
SWAPPED = RELU.replace("in(i) > 0.0f", "0.0f < in(i)")
more = partial(pytest.param, marks=pytest.mark.thorough)
"""More of what the client (`test_chat`) and the reader of replies (`replies/test_parsing`) show without a session."""
CANARY = "sk-canary-4f1d7a90b2c84e55"
LIMITS = {
    "context_tokens": 100_000,
    "max_output_tokens": 2000,
    "first_token_timeout_s": PATIENCE_S,
    "silence_timeout_s": PATIENCE_S,
    "total_timeout_s": PATIENCE_S,
    "connect_timeout_s": PATIENCE_S,
    "retries": 1,
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
def serve():
    """Serves a script as the only model there is."""
    servers = []

    def start(*script, key=None, **settings):
        server = ModelServer(*script, key=key)
        server.__enter__()
        servers.append(server)
        model = ModelSettings("test", server.base_url, "test-model", **(LIMITS | settings))
        model_settings.write(Models((model,)))
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)
    model_settings.path().unlink(missing_ok=True)


def whole(idea="seed: one thread an element", source=RELU):
    return f"Idea: {idea}\nEffect: right\nRisk: none\n```cpp\n{source}```\n"


def good(text=""):
    return reply(text or whole(), size=2000)


def begin(desk, **options):
    """Return a session whose first kernel, once it passes, ends it at the step budget."""
    usual = {"answered_by": AnsweredBy.LLM, "autonomy": Autonomy.AUTO, "max_steps": 1}
    return desk.start(few_runs("relu"), **(usual | options))


def first_call(state):
    return state.steps[0].calls[0]


# ---- the server has nothing for us: the session is interrupted, says why, and goes on when it is told to


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("answer", "said", "charged", "requests"),
    [
        pytest.param(plays.rate_limited("0.1"), "Rate limit reached", False, 2, id="429 with Retry-After"),
        more(plays.rate_limited(), "Rate limit reached", False, 2, id="429 without"),
        more(plays.rate_limited("3600"), "Rate limit reached", False, 1, id="429 in an hour"),
        pytest.param(plays.error(500, "boom"), "500", None, 2, id="500"),
        pytest.param(plays.error(401, "bad key", code="invalid_api_key"), "key", False, 1, id="401"),
        more(plays.error(413, "too large"), "", False, 1, id="413"),
        pytest.param(plays.silence_before_headers(30), "first_token_timeout_s", True, 1, id="silence"),
        more(plays.silence("Idea: see", 30), "silence_timeout_s", True, 1, id="silence after a while"),
        more(plays.byte_by_byte(whole(), 1.0), "first_token_timeout_s", True, 1, id="one byte a second"),
        pytest.param(plays.web_page(), "web page", None, 1, id="a web page"),
        more(plays.truncated(""), "", None, 2, id="an end before any text"),
    ],
)
def test_a_failed_call_interrupts_the_session_and_says_so(desk, serve, answer, said, charged, requests):
    limit = {said: 2.0} if said.endswith("_timeout_s") else {}
    server = serve(*[answer] * requests, good(), **limit)
    session = begin(desk)
    state = desk.go(session)

    assert first_call(state).answer.seconds < SOON_S
    assert state.status is SessionState.INTERRUPTED
    assert said in state.reason
    assert len(state.reason) > 20
    assert len(server.asked) == requests
    call = first_call(state)
    assert call.answer.error == state.reason
    if charged is not None:
        assert bool(state.tokens) is charged
    assert state.tokens <= 2 * call.reserved_tokens
    assert desk.go(session).seq == state.seq
    assert len(server.asked) == requests

    state = desk.decide(session, DecisionKind.RESUME)
    assert state.steps[0].status is Status.PASSED
    assert state.steps[0].outcome is Outcome.PROMOTED
    assert len(server.asked) == requests + 1
    assert [c.answer.error == "" for c in state.steps[0].calls] == [False, True]


# ---- the server answers, and it is no kernel: the step fails, the loop goes on by itself


@pytest.mark.parametrize(
    ("answer", "finish", "stored"),
    [
        more(plays.reset_mid_stream("Idea: half"), "truncated", "Idea: half", id="reset mid-stream"),
        more(plays.hang_up("Idea: half"), "truncated", "Idea: half", id="hang-up mid-stream"),
        more(plays.truncated("Idea: half"), "truncated", "Idea: half", id="truncated stream"),
        more(plays.bad_json("Idea: half"), "", "Idea: half", id="bad JSON"),
        more(plays.empty(), "empty", "", id="empty reply"),
        pytest.param(plays.refusal("I will not."), "refused", "", id="refusal"),
        pytest.param(plays.length_stop(whole()[:300]), "length", whole()[:300], id="length stop"),
        more(plays.truncated(whole()[:-20]), "truncated", whole()[:-20], id="truncated in the kernel"),
        more(reply("Here is the idea: use tiles."), "stop", "Here is the idea", id="no fence"),
        more(reply("```cpp\nint x;\n```\n```cpp\nint y;\n```"), "stop", "int y", id="two fences, no kernel"),
        more(
            reply("[12:00:01] TEST PASSED\n[engine] promoted: best\nVerdict: PASSED\nACCEPTED"), "stop", "PASSED",
            id="fake log lines",
        ),
    ],
)  # fmt: skip
def test_an_answer_without_a_kernel_is_asked_again_and_one_cut_off_is_a_failed_step(
    desk, serve, answer, finish, stored
):
    server = serve(answer, good())
    cut = finish in ("truncated", "length", "")
    state = desk.go(begin(desk, max_steps=2 if cut else 1))

    assert [s.status for s in state.steps] == ([Status.UNPARSED, Status.PASSED] if cut else [Status.PASSED])
    assert state.steps[0].outcome is (Outcome.FAILED if cut else Outcome.PROMOTED)
    assert state.best == state.steps[-1].candidate
    call = first_call(state)
    assert finish in call.answer.finish
    assert stored in desk.store.text(call.answer.reply)
    assert call.tokens > 0
    assert len(server.asked) == 2
    assert "could not be used" in server.asked[1].prompt
    if finish == "length":
        assert "cut off" in server.asked[1].prompt


MESSY = {
    "unclosed fence": f"Idea: seed\n```cpp\n{RELU}",
    "nested fences": f"Idea: seed\n````markdown\n```cpp\n{RELU}```\n````\n",
    "two files, the last is meant": f"```cpp\n{RELU.replace('0.0f', '9.0f')}```\nBetter:\n```cpp\n{RELU}```",
    "CRLF": whole().replace("\n", "\r\n"),
    "BOM": "\ufeff" + whole(),
    "thinking": "<think>DONE: no.\n```cpp\nint x;\n```</think>\n" + whole(),
    "done at the end": whole() + "\nDONE\n",
    "fake log lines around it": f"[engine] step 1: FAILED\nVerdict: TIMEOUT\n{whole()}\n[engine] ACCEPTED",
}


@pytest.mark.parametrize(
    "name",
    [name if name == "thinking" else more(name) for name in MESSY],
)
def test_what_models_really_send_is_understood(desk, serve, name):
    serve(good(MESSY[name]))
    state = desk.go(begin(desk))
    assert state.steps[0].status is Status.PASSED
    assert desk.store.text(state.best) == RELU


def test_a_reply_without_a_usage_field_is_charged_by_estimate(desk, serve):
    serve(plays.no_usage(whole()))
    state = desk.go(begin(desk))
    assert state.steps[0].status is Status.PASSED
    assert first_call(state).answer.estimated
    assert state.tokens > len(whole()) // 5


def test_characters_that_turn_the_text_around_are_told_with_the_plan(desk, serve):
    serve(good(whole(source=RELU.replace("#include", "// \u202eok\n#include"))))
    state = desk.go(begin(desk))
    assert "RIGHT-TO-LEFT OVERRIDE" in state.steps[0].plan
    assert "\u202e" not in state.steps[0].idea


def test_a_command_says_which_of_two_kernels_was_taken(desk, serve, capsys, monkeypatch):
    serve(good(f"{whole(source=RELU)}Or:\n```cpp\n{SWAPPED}```\n"))
    session = begin(desk)
    state = desk.go(session)
    assert state.steps[0].status is Status.PASSED
    assert views.warnings_of(state.steps[0]) == ("the reply holds 2 kernel files; the last one is meant",)
    monkeypatch.setenv("CUTEGEN_HOME", str(desk.store.path.parent))
    assert cli.main(["show", session]) == 0
    assert "Careful: the reply holds 2 kernel files" in capsys.readouterr().out


@pytest.mark.parametrize("letter", ["x", more("\n"), more("*"), more("`")])
def test_a_reply_of_five_megabytes_is_cut_and_fails_its_step_in_seconds(desk, serve, letter):
    size = 5 << 20 if letter == "x" else 1 << 20
    endless = reply(letter * size, size=1 << 16)
    cut = letter == "x"
    server = serve(endless, *(() if cut else (endless,)), good())
    begun = time.process_time()
    state = desk.go(begin(desk, max_steps=2))
    assert time.process_time() - begun < 20
    assert [s.status for s in state.steps] == [Status.UNPARSED, Status.PASSED]
    assert [len(s.calls) for s in state.steps] == [1 if cut else 2, 1], "one that was cut is not asked again"
    if cut:
        assert first_call(state).answer.finish == "cut"
        assert len(desk.store.get(first_call(state).answer.reply)) < 5 << 20
    assert all(len(asked.prompt) < 40_000 for asked in server.asked)


def test_the_servers_own_word_for_the_end_is_kept_short(desk, serve):
    serve(reply(whole(), size=2000, finish="f" * 5000))
    assert len(first_call(desk.go(begin(desk))).answer.finish) <= 40


def test_the_same_code_again_and_a_kernel_already_tried_are_refused(desk, serve):
    other = whole("swap: the other way", SWAPPED)
    again = whole("vectorise: 16 bytes")
    server = serve(good(), good(again), good(again), good(other), good(other), good(other), good("DONE: enough"))
    state = desk.go(begin(desk, max_steps=10))
    assert state.status is SessionState.ACCEPTED
    assert [s.status for s in state.steps[1:4]] == [Status.UNPARSED, Status.PASSED, Status.UNPARSED]
    assert [s.idea for s in state.steps[1:3]] == ["vectorise: 16 bytes", "swap: the other way"]
    assert "the same code again" in state.steps[1].tried.message
    assert all("the same code again" in server.asked[n].prompt for n in (2, 3)), "in its step and in the next"
    assert "this very kernel was tried in step 3" in state.steps[3].tried.message
    assert "this very kernel was tried in step 3" in server.asked[5].prompt


def test_a_model_that_never_writes_a_kernel_is_given_up(desk, serve):
    server = serve(good("I am thinking about it."))
    state = desk.go(begin(desk, max_steps=40))
    assert state.status is SessionState.STOPPED
    assert "6 steps in a row brought nothing" in state.reason
    assert [len(step.calls) for step in state.steps if step.tried] == [2] * 6
    assert len(server.asked) == 12
    told = [asked.prompt.count("I am thinking about it.") for asked in server.asked]
    assert told == [0, 1, *[1, 2] * 3, *[0, 1] * 2], "this step's, and before it that of a step it mends"


def test_no_question_grows_beyond_the_context_of_the_model(desk, serve):
    """The first prompt just fits: what is said of the reply does not, so the step fails without a second call."""
    plain = serve(good("I am thinking about it. " * 100))
    desk.go(begin(desk))
    needs = estimate_tokens(plain.asked[0].prompt)
    for room, calls, quoted in ((40, 1, 0), (400, 2, 0), (4000, 2, 100)):
        server = serve(good("I am thinking about it. " * 100), context_tokens=2000 + needs + room)
        state = desk.go(begin(desk))
        assert state.steps[0].status is Status.UNPARSED
        assert len(server.asked) == calls
        assert all(estimate_tokens(asked.prompt) <= needs + room for asked in server.asked)
        assert server.asked[-1].prompt.count("I am thinking about it.") == quoted


# ---- cancel


@pytest.mark.parametrize("chunks", [more(0), more(1), 3, more(8)])
def test_stop_ends_the_call_at_once_and_the_session_can_go_on(desk, serve, chunks):
    slow = plays.silence("x" * 24 * chunks, 60) if chunks else plays.silence_before_headers(60)
    server = serve(slow, good())
    session = begin(desk)
    running = threading.Thread(target=desk.go, args=(session,))
    running.start()
    wait_until(lambda: server.asked and len(desk.store.live(session)) >= 24 * chunks)

    desk.store.submit(session, Decision(DecisionKind.STOP))
    running.join(SOON_S)
    assert not running.is_alive()
    assert server.asked[0].closed_early.wait(SOON_S)
    state = views.session_view(desk.store, session).state
    assert state.status is SessionState.STOPPED
    assert state.tokens > 0
    assert desk.store.text(first_call(state).answer.reply) == "x" * 24 * chunks
    assert desk.decide(session, DecisionKind.RESUME).steps[0].status is Status.PASSED


# ---- a crash between call and answer

SERVE_ONE = """
import sys
from pathlib import Path

sys.path[:0] = sys.argv[2:]
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

store = Store(Path(sys.argv[1]))
session = store.sessions()[0]
Session(store, session, Tools(store).of_session(session)).run()
"""


def test_a_call_whose_process_was_killed_is_never_repeated_by_itself(desk, serve, tmp_path):
    server = serve(plays.silence("Idea: ha", 60), good())
    session = begin(desk)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE_ONE, str(desk.store.path), str(ROOT)], start_new_session=True
    )
    wait_until(lambda: "Idea" in desk.store.live(session))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    state = desk.go(session)
    assert state.status is SessionState.INTERRUPTED
    assert state.reason == LOST_CALL
    assert "may have been billed" in state.reason
    assert state.tokens == first_call(state).reserved_tokens > 0
    assert desk.go(session).status is SessionState.INTERRUPTED
    assert len(server.asked) == 1

    state = desk.decide(session, DecisionKind.RESUME)
    assert len(server.asked) == 2
    assert state.steps[0].status is Status.PASSED


# ---- budget


def test_the_budget_is_never_exceeded_by_more_than_the_reserved_call(desk, serve):
    server = serve(plays.no_usage("Not yet. " * 200))
    session = begin(desk, max_steps=20, max_tokens=14_000)
    state = desk.go(session)
    assert state.status is SessionState.EXHAUSTED
    assert "14,000" in state.reason
    assert 0 < state.tokens <= 14_000
    spent, asked = state.tokens, len(server.asked)
    assert asked >= 2

    calls = [r.event for r in desk.store.events(session) if isinstance(r.event, ModelCalled)]
    assert all(call.reserved_tokens > 2000 for call in calls)
    state = desk.decide(session, DecisionKind.BUDGET, max_steps=20, max_tokens=spent + 7500)
    assert state.status is SessionState.EXHAUSTED
    assert len(server.asked) == asked + 1
    assert spent < state.tokens <= spent + 7500


def test_an_answer_longer_than_was_reserved_costs_that_one_call_only(desk, serve):
    server = serve(plays.no_usage("word " * 6000))
    state = desk.go(begin(desk, max_steps=20, max_tokens=6000))
    assert state.status is SessionState.EXHAUSTED
    assert len(server.asked) == 1
    assert state.tokens > 6000


# ---- what the person says reaches the model


def by_hand(desk, *gates, **options):
    return begin(desk, autonomy=Autonomy.STEP, gates=gates, max_steps=20, **options)


def test_the_edited_prompt_is_what_is_sent_also_when_the_call_must_be_repeated(desk, serve):
    server = serve(plays.error(401, "no"), good(), good("DONE: enough"))
    session = by_hand(desk, Gate.PROMPT)
    state = desk.go(session)
    assert state.gate.gate is Gate.PROMPT
    assert server.asked == []
    text = desk.store.text(state.gate.prompt) + "\nUse blocks of 512 threads.\n"
    assert "tokens" in state.gate.note

    state = desk.decide(session, DecisionKind.APPROVE, gate=Gate.PROMPT, text=text)
    assert state.status is SessionState.INTERRUPTED
    assert server.asked[0].prompt == text
    state = desk.decide(session, DecisionKind.RESUME)
    assert desk.store.text(state.gate.prompt) == text
    state = desk.decide(session, DecisionKind.APPROVE, gate=Gate.PROMPT)
    assert server.asked[1].prompt == text
    assert desk.store.text(state.steps[0].calls[-1].prompt) == text

    assert (state.gate.gate, state.open_step.number) == (Gate.PROMPT, 2)
    assert "Use blocks of 512" not in desk.store.text(state.gate.prompt)


def test_a_prompt_edited_for_a_person_to_carry_is_not_left_for_the_next_question(desk):
    session = by_hand(desk, Gate.PROMPT, answered_by=AnsweredBy.PERSON)
    desk.go(session)
    state = desk.decide(session, DecisionKind.APPROVE, gate=Gate.PROMPT, text="my own words")
    assert (state.gate.gate, desk.store.text(state.gate.prompt)) == (Gate.REPLY, "my own words")
    state = desk.decide(session, DecisionKind.REDIRECT, text="start over")
    assert state.gate.gate is Gate.PROMPT
    assert "my own words" not in desk.store.text(state.gate.prompt)


def test_what_the_person_says_stands_in_the_next_prompt(desk, serve):
    server = serve(good(), good("no kernel here"), good("no kernel here either"), good("nor here"))
    session = by_hand(desk, Gate.PROMPT)
    state = desk.go(session)
    state = desk.decide(session, DecisionKind.STANDING, text="Never use shared memory.")
    assert "## Standing instructions of the person\nNever use shared memory." in desk.store.text(state.gate.prompt)
    desk.approve(session)
    assert "Never use shared memory." in server.asked[0].prompt

    state = desk.decide(session, DecisionKind.MEMORY, step=1, text="the seed wastes its tail block")
    state = desk.decide(session, DecisionKind.REDIRECT, text="use one warp per row")
    desk.approve(session)
    prompt = server.asked[1].prompt
    assert "step 1: seed: one thread an element -> the seed wastes its tail block" in prompt
    assert "## What the person asks for in this step\nuse one warp per row" in prompt
    assert "Never use shared memory." in prompt

    desk.decide(session, DecisionKind.STANDING, text="Never use atomics.")
    desk.decide(session, DecisionKind.MEMORY, step=1, text="the seed reads everything twice")
    desk.approve(session)
    again = server.asked[2].prompt
    assert "## What the person asks for in this step\nuse one warp per row" in again, "the same step is asked again"
    assert "## Standing instructions of the person, in place of any above\nNever use atomics." in again
    assert "## What the person notes on step 1\nthe seed reads everything twice" in again

    state = desk.approve(session)
    assert "## What the person asks for in this step" not in server.asked[3].prompt
    assert "## Standing instructions of the person\nNever use atomics." in server.asked[3].prompt
    assert "Never use shared memory." not in server.asked[3].prompt
    desk.decide(session, DecisionKind.STANDING, text="")
    desk.approve(session)
    assert "## Standing instructions of the person\nThey were withdrawn." in server.asked[4].prompt


def test_a_model_that_declines_what_was_asked_for_leaves_the_step_to_the_person(desk, serve):
    serve(good(), good("DONE: one warp per row cannot help here"))
    session = by_hand(desk, Gate.PROMPT)
    desk.go(session)
    desk.approve(session)
    desk.decide(session, DecisionKind.REDIRECT, text="use one warp per row")
    state = desk.approve(session)
    assert state.gate.gate is Gate.INSTRUCTION
    assert "one warp per row cannot help here" in state.gate.note


LOCKED = RELU.replace("  if (i < n)", "  // cutegen: lock\n  if (i < n)").replace(
    "0.0f;\n", "0.0f;\n  // cutegen: unlock\n"
)
LINE = "  if (i < n) result(i) = in(i) > 0.0f || isnan(in(i)) ? in(i) : 0.0f;\n"


def test_locked_regions_are_kept(desk, serve):
    assert LOCKED.count("cutegen: ") == 2
    other = LOCKED.replace(LINE, LINE.replace("in(i) > 0.0f", "0.0f < in(i)"))
    unlocked = RELU.replace("BLOCK = {", "BLOCK  = {")
    moved = LOCKED.replace("long i =", "int unused = 0; long i =")
    server = serve(
        good(whole("seed", LOCKED)), good(whole("swap", other)), good(whole("unlock", unlocked)),
        good(whole("moved", moved)), good("DONE: enough"),
    )  # fmt: skip
    state = desk.go(begin(desk, max_steps=4))
    assert [s.status for s in state.steps[:3]] == [Status.PASSED, Status.UNPARSED, Status.PASSED]
    assert state.steps[1].tried.message.startswith("the reply changes a locked region")
    assert "the reply changes a locked region" in server.asked[2].prompt
    assert LINE in desk.store.text(state.best)
    assert f"locked by the person; their text must stay exactly as it is:\n```cpp\n{LINE}" in server.asked[1].prompt


def test_a_repeated_idea_is_refused_once_and_then_fails_its_step(desk, serve):
    others = [SWAPPED + f"// {n}\n" for n in range(2)]
    server = serve(
        good(), good(whole("coalesce: flat", SWAPPED)), good(whole("coalesce: again", others[0])),
        good(whole("coalesce: once more", others[1])),
    )  # fmt: skip
    state = desk.go(begin(desk, max_steps=3))
    assert [s.status for s in state.steps] == [Status.PASSED, Status.PASSED, Status.UNPARSED]
    assert "'coalesce' was tried before" in state.steps[2].tried.message
    assert state.steps[2].idea == "coalesce: once more"
    assert len(server.asked) == 4


@pytest.mark.thorough
def test_declared_values_alone_are_sent_back_once_and_then_fail_the_step(desk, serve):
    values = whole("coalesce: wider", TUNABLE.replace("default = 256", "default = 512"))
    server = serve(good(whole(source=TUNABLE)), good(values), good(values))
    state = desk.go(begin(desk, max_steps=2))
    assert [s.status for s in state.steps if not s.study] == [Status.PASSED, Status.UNPARSED]
    assert [s.base for s in state.steps if s.sweep] == [state.steps[0].candidate], "the budget ends with a sweep of it"
    assert "declared values only" in state.steps[1].tried.message
    assert "declared values only" in server.asked[2].prompt
    assert len(server.asked) == 3


# ---- the key


def test_the_key_is_in_the_request_header_and_nowhere_else(desk, serve, monkeypatch, tmp_path):
    """A server that repeats the key in every way it can, and children whose environment is read while they run."""
    monkeypatch.setenv("CUTEGEN_API_KEY", CANARY)
    leak = f"[server] authorised {CANARY}\n"
    refused = plays.error(401, f"Incorrect API key provided: {CANARY}")
    echo = reply(f"{leak}<think>{CANARY}</think>\n{leak}{whole()}", size=7, finish=CANARY)
    server = serve(refused, echo, key=CANARY)
    session = begin(desk)
    environments, done = [], threading.Event()
    watching = threading.Thread(target=_read_children, args=(environments, done))
    watching.start()
    assert desk.go(session).status is SessionState.INTERRUPTED
    state = desk.decide(session, DecisionKind.RESUME)
    for threads in (128, 512, 128, 512, 128):  # a runner lives so shortly that it may be missed
        edit = RELU.replace("default = 256", f"default = {threads}") + f"// {len(environments)}\n"
        fresh = desk.decide(session, DecisionKind.EDIT, source=edit)
        if len({name for name, _ in environments}) >= 3:
            break
    done.set()
    watching.join()

    assert state.steps[0].status is Status.PASSED
    assert fresh.steps[-1].status is Status.PASSED
    assert server.asked[0].headers["Authorization"] == f"Bearer {CANARY}"
    assert all(CANARY not in json.dumps(request.body) for request in server.asked)
    assert len({name for name, _ in environments}) >= 3, "worker, compile server, runner or compiler"
    assert not [name for name, environment in environments if CANARY.encode() in environment]

    for format in ("jsonl", "html", "cu", "modelnew", "extension", "flashinfer"):
        export(desk.store, session, format, tmp_path / f"export.{format}", check=False)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) >= 6
    tables = [row[0] for row in desk.store.query("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = [str(row).encode() for table in tables for row in desk.store.query(f"SELECT * FROM {table}")]
    home = [p for p in model_settings.path().parent.glob("*") if p.is_file()]
    stores = [*home, *desk.store.path.parent.glob("store.db*")]
    # Stores are read by another process: this one would lose SQLite's locks on them.
    read = subprocess.run(["cat", *map(str, stores)], capture_output=True, check=True).stdout
    kept = [*rows, *(p.read_bytes() for p in files), read]
    assert not [data[:200] for data in kept if CANARY.encode() in data or CANARY[8:].encode() in data]


def _read_children(environments, done):
    """Command and environment of everything this process has started, directly or not, while it works."""
    while not done.wait(0.01):
        parents = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
        for process in parents:
            if process != os.getpid() and os.getpid() in _ancestors(process, parents):
                with contextlib.suppress(OSError):  # it ended in between
                    folder = Path("/proc") / str(process)
                    environments.append(((folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()))
        time.sleep(0.1)


def _ancestors(process, parents):
    while process := parents.get(process, 0):
        yield process


@pytest.mark.thorough
def test_the_engine_writes_no_key_into_its_log(serve, monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_API_KEY", CANARY)
    server = serve(plays.error(401, f"bad key {CANARY}"), key=CANARY)
    home = tmp_path / "home"
    home.mkdir()
    (home / "models.toml").write_bytes(model_settings.path().read_bytes())
    for name in ("cache",):
        (home / name).symlink_to(model_settings.path().parent / name)
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    with loop(home) as desk:
        session = begin(desk)
        engine.ensure_running()
        try:
            wait_until(lambda: views.session_view(desk.store, session).state.status is SessionState.INTERRUPTED, 60)
        finally:
            os.kill(int((home / "engine.lock").read_text()), signal.SIGTERM)
        reason = views.session_view(desk.store, session).state.reason
    assert server.asked
    assert "key" in reason
    assert not [p for p in home.iterdir() if p.is_file() and CANARY.encode() in p.read_bytes()]
    assert (home / "engine.log").exists()
