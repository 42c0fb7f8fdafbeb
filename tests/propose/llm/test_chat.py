"""Every fault of a model's server has its outcome, Stop is fast, and the key goes into one header only."""

import copy
import gzip
import logging
import pickle
import socket
import subprocess
import sys
import threading
import time
import traceback
import zlib

import pytest

from cutegen_core.propose.llm import stoppable
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key, origin_of
from cutegen_core.propose.model_error import ModelError, ModelErrorKind
from cutegen_core.propose.tokens import TokenUsage, estimate_tokens
from tests import model_server as play
from tests.later import Later
from tests.model_server import ModelServer
from tests.patience import PATIENCE_S, SOON_S

transport = Later("cutegen_core.propose.llm.chat")
probing = Later("cutegen_core.propose.llm.probe")

CANARY = "sk-canary-7f3a9b2c5d8e1f60"
TEXT = "Plan: wider loads.\n\n```cpp\n/* cutegen */\n```\n"


def question():
    return [transport.Message("system", "You write kernels."), transport.Message("user", "Write one.")]


def model(server, **settings):
    limits = {
        "first_token_timeout_s": PATIENCE_S,
        "silence_timeout_s": PATIENCE_S,
        "connect_timeout_s": PATIENCE_S,
        "retries": 2,
    }
    key = Key(CANARY, origin_of(server.base_url), "the test")
    return transport.ChatModel(ModelSettings("test", server.base_url, play.MODEL, **(limits | settings)), key)


def ask(server, stopped=lambda: False, **settings):
    seen = []
    reply = model(server, **settings).ask(question(), progress=seen.append, stopped=stopped)
    return reply, "".join(seen)


def fail(server, kind, **settings):
    with pytest.raises(ModelError) as caught:
        ask(server, **settings)
    assert caught.value.kind is kind, caught.value
    return caught.value


def test_a_reply_streams_in_and_is_counted():
    with ModelServer(play.reply(TEXT, size=5)) as server:
        reply, seen = ask(server, temperature=0.5, extra_body={"top_k": 3})
    assert reply.text == seen == TEXT
    assert (reply.finish_reason, reply.attempts, reply.request_id) == ("stop", 1, "req-1")
    assert reply.usage == TokenUsage(100, len(TEXT) // 4)
    assert 0 < reply.first_token_seconds <= reply.seconds < SOON_S
    body = server.asked[0].body
    assert body["messages"] == [
        {"role": "system", "content": "You write kernels."},
        {"role": "user", "content": "Write one."},
    ]
    assert (body["temperature"], body["top_k"], body["max_tokens"]) == (0.5, 3, 8192)
    assert body["stream_options"] == {"include_usage": True}


def test_without_usage_tokens_are_estimated():
    with ModelServer(play.no_usage(TEXT)) as server:
        reply, _ = ask(server)
    assert reply.estimated
    assert reply.completion_tokens == estimate_tokens(TEXT)
    assert reply.prompt_tokens > estimate_tokens("You write kernels. Write one.")


def test_a_length_stop_is_a_reply_with_that_reason():
    with ModelServer(play.length_stop(TEXT)) as server:
        assert ask(server)[0].finish_reason == "length"


def test_the_server_may_hold_the_line_after_the_end():
    with ModelServer(play.Answer((*play.pieces(TEXT), play.delta({}, "stop"), play.DONE, play.Wait(30)))) as server:
        started = time.monotonic()
        assert ask(server)[0].text == TEXT
        assert time.monotonic() - started < SOON_S


def test_a_reply_that_outgrows_its_limit_is_cut():
    with ModelServer(play.Answer((*play.big(5 << 20).steps, play.Wait(30)))) as server:
        reply, _ = ask(server)
        assert reply.finish_reason == transport.CUT
        assert 4 << 20 <= len(reply.text) < 5 << 20
        assert server.asked[0].closed_early.wait(SOON_S)


def test_reasoning_sent_apart_is_kept_apart():
    with ModelServer(play.reasoning("hm, tiles", TEXT)) as server:
        reply, seen = ask(server)
    assert reply.text == TEXT
    assert reply.reasoning == "hm, tiles"
    assert seen == f"<think>\nhm, tiles\n</think>\n\n{TEXT}"


def test_a_server_that_does_not_stream_is_understood():
    with ModelServer(play.document(TEXT)) as server:
        reply, seen = ask(server)
    assert reply.text == seen == TEXT
    assert not reply.streamed
    assert reply.usage == TokenUsage(7, 3)


def test_a_surrogate_pair_split_between_pieces_is_put_together():
    halves = [
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n',
    ]
    lone = b'data: {"choices":[{"delta":{"content":"\\udc00."}}]}\n\n'
    with ModelServer(play.Answer((*halves, lone, play.delta({}, "stop"), play.DONE))) as server:
        reply, seen = ask(server)
    assert reply.text == seen == "\U0001f600\ufffd."


@pytest.mark.parametrize("field", ["stream_options", "max_tokens"])
def test_a_field_the_server_rejects_is_left_out_from_then_on(field):
    with ModelServer(play.rejects([field], play.reply(TEXT))) as server:
        assert ask(server)[0].attempts == 2
        assert ask(server)[0].attempts == 1
    assert [field in r.body for r in server.asked] == [True, False, False]
    assert all("max_tokens" in r.body or "max_completion_tokens" in r.body for r in server.asked)


@pytest.mark.parametrize(
    ("first", "least_s"),
    [
        (play.rate_limited(), 0.3),
        (play.rate_limited("1"), 1.0),
        (play.error(500, "boom"), 0.3),
        (play.error(503, "loading", retry_after="0"), 0.0),
        (play.error_event("overloaded"), 0.3),
        (play.reset_before_text(), 0.3),
        (play.truncated(""), 0.3),
    ],
    ids=["429", "429 with Retry-After", "500", "503", "error event", "reset before text", "nothing at all"],
)
def test_a_passing_fault_before_any_text_is_tried_again(first, least_s):
    with ModelServer(first, play.reply(TEXT)) as server:
        reply, seen = ask(server)
    assert reply.text == seen == TEXT
    assert reply.attempts == 2
    assert least_s <= reply.seconds < SOON_S


def test_retries_are_bounded():
    with ModelServer(play.error(500, "boom")) as server:
        error = fail(server, ModelErrorKind.SERVER, retries=1)
    assert error.attempts == len(server.asked) == 2
    assert error.status == 500
    assert error.charged.usage.tokens == 0
    assert "boom" in str(error)


def test_what_may_have_been_billed_is_repeated_only_once_and_charged():
    with ModelServer(play.reset_before_text()) as server:
        error = fail(server, ModelErrorKind.UNREACHABLE, retries=9)
        assert len(server.asked) == 2
    assert error.charged.usage.estimated
    assert error.charged.usage.prompt_tokens > 2 * estimate_tokens("You write kernels. Write one.")


def packed(body, kind="text/event-stream", coding="gzip"):
    return play.Answer((body,), headers=(("Content-Type", kind), ("Content-Encoding", coding)))


@pytest.mark.by_default(10)
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (play.rate_limited("3600"), ModelErrorKind.RATE_LIMITED, "wait 3600 s"),
        (play.error(429, "out of money", code="insufficient_quota"), ModelErrorKind.RATE_LIMITED, "quota is used up"),
        (play.error(401, "bad key"), ModelErrorKind.AUTH, "Check the key"),
        (play.error(403, "not yours"), ModelErrorKind.AUTH, "not yours"),
        (play.error(404, "no model"), ModelErrorKind.SERVER, "does not know the model 'test-model'"),
        (play.error(400, "temperature must be 1"), ModelErrorKind.SERVER, "temperature must be 1"),
        (play.error(413, "big"), ModelErrorKind.TOO_LARGE, "Shorten it"),
        (play.error(400, "x", code="context_length_exceeded"), ModelErrorKind.TOO_LARGE, "too large"),
        (play.error(400, "maximum context length is 4096 tokens"), ModelErrorKind.TOO_LARGE, "4096"),
        (play.Answer((b'data: {"error": {"message": "context length exceeded", "code": 400}}\n\n',)),
         ModelErrorKind.TOO_LARGE, "Shorten it"),
        (play.Answer(status=302, headers=(("Location", "http://127.0.0.1:1/v1"),)), ModelErrorKind.SERVER, "redirects"),
        (play.web_page(), ModelErrorKind.BAD_ANSWER, "web page"),
        (play.bad_json(), ModelErrorKind.BAD_ANSWER, "not JSON"),
        (play.Answer((b"data: \xff\xfe\n\n",)), ModelErrorKind.BAD_ANSWER, "not JSON"),
        (play.Answer((b"data: 5\n\n",)), ModelErrorKind.BAD_ANSWER, "not an object"),
        (play.Answer((b"data: " + b"[" * 200_000 + b"\n\n",)), ModelErrorKind.BAD_ANSWER, "not JSON"),
        (play.Answer((b": still working\n\n" * 600_000,)), ModelErrorKind.BAD_ANSWER, "without end"),
        (packed(gzip.compress(b": still working\n\n" * 600_000)), ModelErrorKind.BAD_ANSWER, "without end"),
        (packed(zlib.compress(b"x" * (64 << 20))), ModelErrorKind.BAD_ANSWER, "without end"),
        (packed(gzip.compress(b" " * (64 << 20)), "application/json"), ModelErrorKind.BAD_ANSWER, "without end"),
        (packed(b"not packed"), ModelErrorKind.BAD_ANSWER, "cannot be unpacked"),
        (packed(b"x", coding="br"), ModelErrorKind.BAD_ANSWER, "compressed ('br'), which was not asked for"),
        (play.Answer((b'data: {"usage": ' + b"9" * 5000 + b"}\n\n",)), ModelErrorKind.BAD_ANSWER, "not JSON"),
        (play.empty(), ModelErrorKind.EMPTY, "empty answer"),
        (play.reply(" \n"), ModelErrorKind.EMPTY, "empty answer"),
        (play.Answer((play.delta({"reasoning": "hm"}), play.delta({}, "length"))), ModelErrorKind.EMPTY, "Raise max"),
        (play.Answer((play.delta({}, "tool_calls"), play.DONE)), ModelErrorKind.EMPTY, "tool"),
        (play.refusal("I will not."), ModelErrorKind.REFUSED, "I will not."),
        (play.reply(TEXT, finish="content_filter"), ModelErrorKind.REFUSED, "content filter"),
        (play.Answer((b'data: {"choices": 5}\n\ndata: {"choices": [7]}\n\n',)), ModelErrorKind.TRUNCATED_STREAM, ""),
    ],
    ids=lambda value: "" if isinstance(value, play.Answer) else str(value),
)  # fmt: skip
def test_a_lasting_fault_ends_the_call(answer, kind, words):
    with ModelServer(answer) as server:
        error = fail(server, kind, retries=0)
        assert words in str(error)
        assert len(server.asked) == 1


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_answer_is_unpacked(pack):
    with ModelServer(packed(pack(b"".join(play.reply(TEXT).steps)))) as server:
        assert ask(server)[0].text == TEXT


def test_a_count_of_tokens_that_cannot_be_is_an_estimate():
    many = b'data: {"usage": {"prompt_tokens": ' + b"9" * 4000 + b', "completion_tokens": 1}}\n\n'
    with ModelServer(play.Answer((many, *play.no_usage(TEXT).steps))) as server:
        reply, _ = ask(server)
    assert reply.estimated
    assert reply.text == TEXT


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (play.reset_mid_stream(TEXT), ModelErrorKind.TRUNCATED_STREAM),
        (play.hang_up(TEXT), ModelErrorKind.TRUNCATED_STREAM),
        (play.truncated(TEXT), ModelErrorKind.TRUNCATED_STREAM),
        (play.bad_json(TEXT), ModelErrorKind.BAD_ANSWER),
        (play.error_event("out of memory", TEXT), ModelErrorKind.SERVER),
    ],
    ids=["reset", "hang-up", "truncated", "bad JSON", "error event"],
)
def test_a_fault_after_text_is_not_repeated_and_keeps_the_text(answer, kind):
    with ModelServer(answer, play.reply("second")) as server:
        error = fail(server, kind)
        assert len(server.asked) == 1
    assert error.charged.text == TEXT
    assert error.charged.usage.completion_tokens == estimate_tokens(TEXT)


@pytest.mark.parametrize(
    ("answer", "limit", "text"),
    [
        (play.silence_before_headers(), "first_token_timeout_s", ""),
        (play.silence(), "first_token_timeout_s", ""),
        (play.byte_by_byte(TEXT, 0.1), "first_token_timeout_s", ""),
        (play.silence(TEXT), "silence_timeout_s", TEXT),
        (play.Answer((*play.pieces(TEXT), *[b": alive\n\n", play.Wait(0.1)] * 500)), "silence_timeout_s", TEXT),
        (play.reply("x" * 500, size=1, pause_s=0.1), "total_timeout_s", None),
    ],
    ids=["no headers", "no text", "byte by byte", "silence", "comments only", "a letter at a time"],
)
def test_a_limit_ends_a_call_that_drags(answer, limit, text):
    with ModelServer(answer) as server:
        started = time.monotonic()
        error = fail(server, ModelErrorKind.TIMEOUT, **{limit: 1.0})
        assert time.monotonic() - started < SOON_S
        assert limit in str(error)
        assert server.asked[0].closed_early.wait(SOON_S)
    assert error.charged.usage.prompt_tokens > 0
    assert text is None or error.charged.text == text


def test_a_server_that_does_not_run_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match="cannot be reached: connection refused") as caught:
        transport.ChatModel(ModelSettings("m", url, "m", retries=0), None).ask(question(), progress=print)
    assert caught.value.kind is ModelErrorKind.UNREACHABLE
    assert caught.value.charged.usage.tokens == 0


def test_a_name_nobody_knows_is_named():
    settings = ModelSettings("m", "http://no-such-host.invalid/v1", "m", retries=0)
    with pytest.raises(ModelError, match=r"no-such-host\.invalid/v1 cannot be reached: its name is not known"):
        transport.ChatModel(settings, None).ask(question(), progress=print)


def test_a_server_without_tls_is_told_apart():
    with ModelServer() as server:
        settings = ModelSettings("m", server.base_url.replace("http:", "https:"), "m", retries=0)
        with pytest.raises(ModelError, match="is https right") as caught:
            transport.ChatModel(settings, None).ask(question(), progress=print)
    assert caught.value.kind is ModelErrorKind.UNREACHABLE


def stop_after(server, seconds, **settings):
    """Stop a call after that long; the error and the seconds it took from the stop to the end."""
    begun = time.monotonic()
    with pytest.raises(ModelError) as caught:
        ask(server, stopped=lambda: time.monotonic() - begun > seconds, **settings)
    assert caught.value.kind is ModelErrorKind.CANCELLED
    return caught.value, time.monotonic() - begun - seconds


@pytest.mark.parametrize(
    "answer",
    [
        play.silence_before_headers(),
        play.silence(),
        play.silence(TEXT),
        play.reply("x" * 1000, size=1, pause_s=0.02),
        play.byte_by_byte(TEXT, 0.01),
    ],
    ids=["before headers", "before text", "after text", "text flowing", "bytes flowing"],
)
def test_stop_closes_the_connection_at_once(answer):
    with ModelServer(answer) as server:
        error, seconds = stop_after(server, 0.3)
        assert seconds < SOON_S
        assert server.asked[0].closed_early.wait(SOON_S)
        assert error.charged.usage.prompt_tokens > 0
    assert not [t for t in threading.enumerate() if t.name == "model-call"]


def test_a_stop_is_heard_and_carried_out_within_a_second():
    """By its design: what the clock says in the tests beside it is also how busy the machine is."""
    assert stoppable._POLL_S + stoppable._GOODBYE_S < 1


def test_stop_in_a_pause_between_attempts_costs_nothing():
    with ModelServer(play.rate_limited("30")) as server:
        error, seconds = stop_after(server, 0.3)
    assert seconds < SOON_S
    assert error.charged.usage.tokens == 0


def test_stop_while_connecting():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        begun = time.monotonic()
        settings = ModelSettings("m", f"http://127.0.0.1:{address[1]}/v1", "m")
        with pytest.raises(ModelError) as caught:
            transport.ChatModel(settings, None).ask(
                question(), progress=print, stopped=lambda: time.monotonic() > begun + 0.3
            )
        for filler in fillers:
            filler.close()
    assert caught.value.kind is ModelErrorKind.CANCELLED
    assert time.monotonic() - begun < SOON_S


def test_stop_at_every_piece_keeps_what_had_come():
    pieces = 8
    text = "".join(f"[{i}]" for i in range(pieces))
    for wanted in range(1, pieces + 1):
        steps = [step for piece in play.pieces(text, 3) for step in (piece, play.Wait(0.12))]
        with ModelServer(play.Answer((*steps, play.Wait(30)))) as server:
            seen = []
            with pytest.raises(ModelError) as caught:
                model(server).ask(question(), progress=seen.append, stopped=lambda: len("".join(seen)) >= 3 * wanted)  # noqa: B023
            assert server.asked[0].closed_early.wait(SOON_S)
        assert caught.value.kind is ModelErrorKind.CANCELLED
        assert caught.value.charged.text.startswith(text[: 3 * wanted])
        assert caught.value.charged.usage.completion_tokens == estimate_tokens(caught.value.charged.text)


def test_what_progress_raises_ends_the_call():
    def broken(text):
        raise ZeroDivisionError

    with ModelServer(play.silence(TEXT)) as server:
        with pytest.raises(ZeroDivisionError):
            model(server).ask(question(), progress=broken)
        assert server.asked[0].closed_early.wait(SOON_S)


def test_calls_side_by_side_do_not_mix():
    with ModelServer(lambda request: play.reply(request.prompt * 50, size=7)) as server:
        texts = {}

        def run(name):
            texts[name] = model(server).ask([transport.Message("user", name)], progress=lambda text: None).text

        threads = [threading.Thread(target=run, args=(f"<{i}>",)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == {f"<{i}>": f"<{i}>" * 50 for i in range(6)}


ECHOES = [
    play.error(401, f"Incorrect API key provided: {CANARY}"),
    play.error(401, f"Incorrect API key provided: {CANARY[:12]}****{CANARY[-9:]}"),
    play.error(500, f"headers were Authorization: Bearer {CANARY}"),
    play.error_event(f"bad {CANARY}", TEXT),
    play.reply(f"{TEXT} {CANARY} {CANARY}", size=3),
    play.refusal(f"not for {CANARY}"),
    play.reset_mid_stream(f"{TEXT} {CANARY}"),
    play.Answer(status=302, headers=(("Location", f"http://127.0.0.1:1/{CANARY}"),)),
    play.silence(CANARY),
]


@pytest.mark.parametrize("answer", ECHOES, ids=range(len(ECHOES)))
def test_the_key_is_in_the_request_header_and_nowhere_else(answer, caplog, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY + "-env")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", CANARY + "-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", CANARY + "-org")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Extra: {CANARY}-extra\nAuthorization: Bearer {CANARY}-custom")
    caplog.set_level(logging.DEBUG)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    traces = []
    seen = []
    with ModelServer(answer) as server:
        chat = model(server, retries=0, silence_timeout_s=0.3)
        try:
            traces.append(repr(chat.ask(question(), progress=seen.append)))
        except ModelError as error:
            traces += ["".join(traceback.format_exception(error)), repr(error.args), repr(error.charged)]
            traces += [repr(error.__cause__), repr(error.__context__)]
        request = server.asked[0]
    traces += [caplog.text, *(repr(record.__dict__) for record in caplog.records), "".join(seen), repr(vars(chat))]
    assert caplog.records
    for trace in traces:
        assert CANARY[3:13] not in trace
        assert CANARY[-9:] not in trace
    assert request.headers["Authorization"] == f"Bearer {CANARY}"
    assert [name for name, value in request.headers.items() if CANARY in value] == ["Authorization"]
    assert CANARY not in repr(request.body)


def test_a_key_is_not_sent_to_another_server():
    with ModelServer() as server:
        key = Key(CANARY, "https://api.openai.com", "the test")
        with pytest.raises(Exception, match=r"meant for https://api.openai.com") as caught:
            transport.ChatModel(ModelSettings("m", server.base_url, "m"), key).ask(question(), progress=print)
        assert server.requests == []
    assert CANARY not in repr(caught.value)


def test_a_local_server_needs_no_key():
    with ModelServer() as server:
        reply = transport.ChatModel(ModelSettings("m", server.base_url, "m"), None).ask(
            question(), progress=lambda text: None
        )
        assert reply.text == play.DEFAULT_TEXT
        assert "Authorization" not in server.asked[0].headers


def test_a_key_shows_itself_to_nobody():
    key = Key(CANARY, "https://api.openai.com", "the test")
    assert CANARY not in f"{key} {key!r} {[key]}"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not pickled or copied"):
            copied(key)


def connection(server, **settings):
    chat = model(server, **settings)
    return probing.probe_server(chat.settings, Key(CANARY, origin_of(server.base_url), "the test"))


def test_the_connection_test_lists_models_and_asks():
    with ModelServer(play.reply("ready"), key=CANARY) as server:
        found = connection(server)
    assert found.reachable
    assert found.usable
    assert found.models == (play.MODEL, "other-model")
    assert found.streaming
    assert found.usage
    assert "answered in" in found.message


def test_the_connection_test_says_what_is_wrong():
    with ModelServer(key="another") as server:
        found = connection(server)
        assert found.reachable
        assert not found.usable
        assert "refused (401)" in found.message
        assert CANARY not in repr(found)
    with ModelServer(play.document("ready")) as server:
        server.models = None
        found = connection(server)
        assert found.usable
        assert not found.streaming
        assert found.listing == "the server has no list of models"
    with ModelServer(play.web_page()) as server:
        assert not connection(server).reachable
    with ModelServer(play.no_usage("ready")) as server:
        server.models = ("a",)
        found = connection(server)
        assert not found.usage
        assert "does not list 'test-model'" in found.message
    found = connection(server)
    assert not found.reachable
    assert "connection refused" in found.message


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer(play.reply(TEXT)) as server:
        monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
        far = transport.ChatModel(ModelSettings("m", "http://gpubox.invalid:8000/v1", "m"), None)
        assert far.ask(question(), progress=lambda text: None).text == TEXT
        assert server.asked[0].path == "http://gpubox.invalid:8000/v1/chat/completions"
        assert server.asked[0].headers["Host"] == "gpubox.invalid:8000"
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert ask(server)[0].text == TEXT


def test_the_server_can_be_started_by_hand(tmp_path):
    (tmp_path / "reply.md").write_text(TEXT)
    command = [sys.executable, "-m", "tests.model_server", "--port", "0", "--file", str(tmp_path / "reply.md")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        reply = transport.ChatModel(ModelSettings("m", url, "m"), None).ask(question(), progress=lambda text: None)
        process.kill()
    assert reply.text == TEXT
