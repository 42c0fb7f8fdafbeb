"""A real HTTP server that plays a language model: `POST /v1/chat/completions` over SSE, and `GET /v1/models`.

Every request takes the next `Answer` of the script; the last one is given again and again. An answer may also be a
function of the request, to play a model that reads its prompt. What arrived is kept in `requests`, and whether the
client hung up before the answer was over.

By hand: `python -m tests.model_server --port 8001 --answer normal`.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "test-model"
DEFAULT_TEXT = "Plan: nothing yet.\n\nI have no kernel to offer.\n"


@dataclass(frozen=True)
class Wait:
    """A pause in the answer, ended early when the client hangs up."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """The connection is torn down with a TCP reset."""


@dataclass(frozen=True)
class HangUp:
    """The connection is closed without the end of the body."""


Step = bytes | Wait | Reset | HangUp


@dataclass(frozen=True)
class Answer:
    """What the server sends for one request.

    Attributes:
        before_s: silence before the status line.
        rejects: body fields that turn the answer into a 400 naming them.
    """

    steps: tuple[Step, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream"),)
    before_s: float = 0.0
    rejects: tuple[str, ...] = ()


@dataclass
class Recorded:
    """One request as it arrived; `closed_early` is set when the client hung up before the answer was over."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    closed_early: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def prompt(self) -> str:
        return "\n\n".join(str(m["content"]) for m in self.body.get("messages", ()))

    @property
    def question(self) -> str:
        """The last message: behind a conversation, what is asked now."""
        return str(self.body["messages"][-1]["content"])


Script = Answer | Callable[[Recorded], Answer]


def event(content: Any) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def delta(fields: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]})


def usage(prompt: int, completion: int, cached: int | None = None) -> bytes:
    numbers: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    numbers["total_tokens"] = prompt + completion
    if cached is not None:
        numbers["prompt_tokens_details"] = {"cached_tokens": cached}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": []}
    return event({**chunk, "usage": numbers})


DONE = b"data: [DONE]\n\n"
START = delta({"role": "assistant", "content": ""})


def pieces(text: str, size: int = 24) -> list[bytes]:
    return [delta({"content": text[i : i + size]}) for i in range(0, len(text), size)]


def reply(
    text: str, *, size: int = 24, pause_s: float = 0.0, finish: str = "stop", with_usage: bool = True,
    cached: int | None = None,
) -> Answer:  # fmt: skip
    """A complete answer in pieces of `size` characters; `cached` of the 100 tokens of the prompt were kept."""
    steps: list[Step] = [START]
    for piece in pieces(text, size):
        steps += [Wait(pause_s), piece] if pause_s else [piece]
    steps.append(delta({}, finish))
    return Answer((*steps, *([usage(100, max(1, len(text) // 4), cached)] if with_usage else []), DONE))


def no_usage(text: str) -> Answer:
    return reply(text, with_usage=False)


def length_stop(text: str) -> Answer:
    return reply(text, finish="length")


def empty() -> Answer:
    return Answer((START, delta({}, "stop"), usage(100, 0), DONE))


def refusal(text: str) -> Answer:
    return Answer((START, delta({"refusal": text}), delta({}, "stop"), usage(100, 9), DONE))


def reasoning(thought: str, text: str) -> Answer:
    """A server that sends the reasoning apart, as vLLM and others do."""
    thoughts = [delta({"reasoning_content": thought})]
    return Answer((START, *thoughts, *pieces(text), delta({}, "stop"), usage(100, 50), DONE))


def error(status: int, message: str, *, code: str | None = None, retry_after: str | None = None) -> Answer:
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return Answer((body,), status, (*headers, *([("Retry-After", retry_after)] if retry_after else [])))


def rate_limited(retry_after: str | None = None) -> Answer:
    return error(429, "Rate limit reached", code="rate_limit_exceeded", retry_after=retry_after)


def reset_mid_stream(text: str) -> Answer:
    # A reset throws away what the client has not read yet, so it comes a moment later.
    return Answer((START, *pieces(text), Wait(0.3), Reset()))


def reset_before_text() -> Answer:
    return Answer((START, Reset()))


def hang_up(text: str) -> Answer:
    """The body ends without its last chunk."""
    return Answer((START, *pieces(text), HangUp()))


def truncated(text: str) -> Answer:
    """A well-formed HTTP answer that ends without finish reason and without [DONE]."""
    return Answer((START, *pieces(text)))


def silence(text: str = "", seconds: float = 600.0) -> Answer:
    """Some text, then nothing."""
    return Answer((START, *pieces(text), Wait(seconds)))


def silence_before_headers(seconds: float = 600.0) -> Answer:
    return replace(reply(DEFAULT_TEXT), before_s=seconds)


def byte_by_byte(text: str, pause_s: float = 1.0) -> Answer:
    raw = b"".join([START, *pieces(text), delta({}, "stop"), DONE])
    return Answer(tuple(step for byte in raw for step in (bytes([byte]), Wait(pause_s))))


def bad_json(text: str = "") -> Answer:
    return Answer((START, *pieces(text), b'data: {"choices": [{"delta": {"content"\n\n', DONE))


def error_event(message: str, text: str = "") -> Answer:
    """An error inside the stream, as OpenRouter and vLLM send it."""
    return Answer((START, *pieces(text), event({"error": {"message": message, "code": 502}}), DONE))


def rejects(fields: Iterable[str], then: Answer) -> Answer:
    """400 while the request holds one of the fields, `then` without them."""
    return replace(then, rejects=tuple(fields))


def big(characters: int, size: int = 4096) -> Answer:
    return reply("x" * characters, size=size)


def document(text: str) -> Answer:
    """A server that ignores `stream`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c1", "choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    return Answer((json.dumps(body).encode(),), headers=(("Content-Type", "application/json"),))


def web_page() -> Answer:
    return Answer((b"<!doctype html><html><body>Welcome</body></html>",), headers=(("Content-Type", "text/html"),))


class ModelServer:
    """The server, on a free port of this machine; use it as a context manager."""

    def __init__(self, *script: Script, key: str | None = None, port: int = 0) -> None:
        self.script: list[Script] = list(script) or [reply(DEFAULT_TEXT)]
        self.key = key
        self.models: Sequence[str] | None = (MODEL, "other-model")
        self.requests: list[Recorded] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def asked(self) -> list[Recorded]:
        """The requests to the model, without the listing."""
        return [r for r in self.requests if r.method == "POST"]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.ending.set()
        self._server.shutdown()
        self._server.server_close()

    def next_answer(self, request: Recorded) -> Answer:
        with self._lock:
            self.requests.append(request)
            script = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        answer = script(request) if callable(script) else script
        refused = [name for name in answer.rejects if name in request.body]
        if not refused:
            return answer
        with self._lock:
            self.script.insert(0, answer)
        return error(400, f"Unrecognized request argument supplied: {refused[0]}{_advice(refused[0])}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ending = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        owner = self.server.owner
        owner.requests.append(Recorded("GET", self.path, dict(self.headers), {}, time.monotonic()))
        if self._refused():
            return
        if self.path != "/v1/models" or owner.models is None:
            return self._plain(404, {"error": {"message": "no such page"}})
        self._plain(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in owner.models]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Recorded("POST", self.path, dict(self.headers), json.loads(raw), time.monotonic())
        if self._refused():
            self.server.owner.requests.append(request)
            return
        answer = self.server.owner.next_answer(request)
        try:
            self._play(answer, request)
        except (BrokenPipeError, ConnectionResetError):
            request.closed_early.set()
            self.close_connection = True
        finally:
            request.over.set()

    def _refused(self) -> bool:
        key = self.server.owner.key
        given = self.headers.get("Authorization")
        if key is None or given == f"Bearer {key}":
            return False
        self._plain(401, {"error": {"message": f"Incorrect API key provided: {given}", "code": "invalid_api_key"}})
        return True

    def _plain(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _play(self, answer: Answer, request: Recorded) -> None:
        if not self._wait(answer.before_s):
            raise ConnectionResetError
        chunked = not any(name == "Content-Length" for name, _ in answer.headers)
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("X-Request-Id", f"req-{len(self.server.owner.requests)}")):
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for step in answer.steps:
            if isinstance(step, bytes):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step) if chunked else step)
            elif isinstance(step, Wait):
                if not self._wait(step.seconds):
                    raise ConnectionResetError
            else:
                return self._drop(step)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self, seconds: float) -> bool:
        """False when the client hung up meanwhile (or the server ends)."""
        deadline = time.monotonic() + seconds
        poll = select.poll()  # not `select`, which takes no descriptor above 1023: a process of all tests has them
        poll.register(self.connection, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if self.server.ending.is_set():
                return False
            if poll.poll(1000 * min(left, 0.1)) and not self.connection.recv(1, socket.MSG_PEEK):
                return False
        return True

    def _drop(self, step: Step) -> None:
        self.close_connection = True
        self.wfile.flush()
        if isinstance(step, Reset):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)


def _advice(name: str) -> str:
    return ". Use 'max_completion_tokens' instead." if name == "max_tokens" else ""


def named_answers(text: str) -> dict[str, Answer]:
    """The answers that `--answer` knows."""
    return {
        "normal": reply(text), "slow": reply(text, pause_s=0.2), "rate-limited": rate_limited("5"),
        "500": error(500, "boom"), "401": error(401, "no"), "413": error(413, "too large"),
        "reset": reset_mid_stream(text), "dribble": byte_by_byte(text), "silence": silence(),
        "truncated": truncated(text), "bad-json": bad_json(), "empty": empty(), "refusal": refusal("I will not."),
        "length": length_stop(text), "no-usage": no_usage(text), "big": big(5 << 20), "page": web_page(),
        "no-stream-options": rejects(["stream_options"], reply(text)), "document": document(text),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="plays a language model")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--file", type=Path, action="append", default=[], help="text of an answer; may be repeated")
    parser.add_argument("--answer", choices=sorted(named_answers("")), default="normal")
    parser.add_argument("--key", help="refuse requests without this key")
    options = parser.parse_args()
    texts = [file.read_text() for file in options.file] or [DEFAULT_TEXT]
    script = [named_answers(text)[options.answer] for text in texts]
    with ModelServer(*script, key=options.key, port=options.port) as server:
        print(f"{server.base_url} plays {MODEL}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
