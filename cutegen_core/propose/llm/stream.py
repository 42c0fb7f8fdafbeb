"""Send one request to a model and read its answer as it arrives.

1. The request is sent; a single JSON document instead of a stream is also accepted.
2. Every event is checked: whatever a server sends, the result is text, a finish reason and token numbers.
3. Time limits apply to text, not to bytes: until the first piece, between pieces, and for the whole answer.

The object keeps the received text, so that a failed or stopped call can be charged and shown.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import openai
from openai import AsyncStream

from cutegen_core.propose.llm.failure import translate_error
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key
from cutegen_core.propose.llm.wire import UnreadableAnswerError, Wire
from cutegen_core.propose.model_error import Failure, ModelErrorKind
from cutegen_core.propose.tokens import TokenUsage, estimate_tokens

REPLY_CHARACTERS_MAX = 4 << 20
CUT = "cut"
_MOST_TOKENS = 1 << 40
_AFTER_FINISH_S = 5.0
_THINKING = ("reasoning_content", "reasoning")
_READ_ERRORS = (
    openai.APIError,
    ValueError,  # not JSON, not UTF-8, or a number of thousands of digits
    RecursionError,
    UnreadableAnswerError,
    httpx2.RequestError,
)


class StreamText:
    """Collects streamed text without the key and with whole surrogate pairs; emits it as soon as that is certain."""

    def __init__(self, key: Key | None, emit: Callable[[str], None]) -> None:
        self._key, self._emit = key, emit
        self._parts: list[str] = []
        self._held = ""
        self.characters = 0

    def add(self, piece: str) -> None:
        """Add a piece and emit the text that is certain."""
        self.characters += len(piece)
        text = self._held + piece
        held = ""
        if self._key is not None:
            text, held = self._key.cut_from_stream(text)
        if not held and "\ud800" <= text[-1:] <= "\udbff":
            text, held = text[:-1], text[-1:]
        self._held = held
        self._put(text)

    def flush(self) -> None:
        """Emit the held end of the text; no continuation will come."""
        held, self._held = self._held, ""
        self._put(held)

    def full_text(self) -> str:
        """Return all text so far."""
        self.flush()
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        if text:
            safe = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            self._parts.append(safe)
            self._emit(safe)


class RequestAttempt:
    """One request.

    Attributes:
        answer, thinking, refusal: the streamed texts.
        finish_reason: as sent by the server; "cut" if the answer exceeded its limit, "" before the end.
        first_token_seconds: from the request to the first piece, None before it.
        was_document: the server sent a document although a stream was requested.
        request_id: the server's, for asking its operators.
    """

    def __init__(self, settings: ModelSettings, key: Key | None, wire: Wire, emit: Callable[[str], None]) -> None:
        self._settings, self._key, self._wire = settings, key, wire
        self._emit = emit
        self.answer = StreamText(key, self._emit_answer)
        self.thinking = StreamText(key, self._emit_thinking)
        self.refusal = StreamText(key, emit)
        self.finish_reason = ""
        self.first_token_seconds: float | None = None
        self.request_id: str | None = None
        self.was_document = False
        self._started = time.monotonic()
        self._latest = self._started
        self._shows_thinking = False
        self._counted: TokenUsage | None = None

    @property
    def streamed(self) -> bool:
        """Whether any text has arrived."""
        return self.first_token_seconds is not None

    def usage(self, prompt_tokens: int) -> TokenUsage:
        """Return the tokens the server counted, else estimates; `prompt_tokens` is the estimate for the prompt."""
        if self._counted is not None:
            return self._counted
        texts = (self.answer, self.thinking, self.refusal)
        return TokenUsage(prompt_tokens, sum(estimate_tokens(t.full_text()) for t in texts), estimated=True)

    async def run(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> Failure | None:
        """Send the request and read the answer to its end; return None if it is usable."""
        try:
            async with asyncio.timeout(self._limit_s()):
                # Not `chat.completions.create`: its typed chunks cost 0.15 ms each and trust the server's types.
                stream = await client.post(
                    "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
                )
            try:
                await self._read(stream)
            finally:
                await stream.close()
        except TimeoutError:
            return self._timeout()
        except _READ_ERRORS as error:
            failure = translate_error(error, self._settings, self._key)
            if self.finish_reason:
                return self._verdict()
            return self._broken(failure) if self.streamed and failure.again else failure
        return self._verdict()

    async def _read(self, stream: AsyncStream[object]) -> None:
        self.request_id = self._short_id(stream.response.headers.get("x-request-id", ""))
        kind = stream.response.headers.get("content-type", "")
        if "json" in kind or "html" in kind:
            self.was_document = True
            async with asyncio.timeout(self._limit_s()):
                self._take_document(await stream.response.aread())
            return
        events = aiter(stream)
        while self.finish_reason != CUT:
            try:
                async with asyncio.timeout(self._limit_s()):
                    event = await anext(events, None)
            except TimeoutError:
                if self.finish_reason:
                    return
                raise
            if event is None:
                return
            self._wire.note_event()
            self._take(event)

    def _take_document(self, content: bytes) -> None:
        if content.lstrip()[:1] == b"<":
            raise UnreadableAnswerError("it answers with a web page")
        document = json.loads(content)
        choices = document.get("choices") if isinstance(document, dict) else None
        if not isinstance(choices, list):
            raise UnreadableAnswerError("its answer holds no choices")
        self._take({**document, "choices": [{**c, "delta": c.get("message")} for c in choices if isinstance(c, dict)]})

    def _take(self, event: object) -> None:
        if not isinstance(event, dict):
            raise UnreadableAnswerError("a piece of its stream is not an object")
        self._counted = _counted(event.get("usage")) or self._counted
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index", 0) not in (0, None):
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._take_delta(delta)
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        if self.answer.characters + self.thinking.characters + self.refusal.characters > REPLY_CHARACTERS_MAX:
            self.finish_reason = CUT

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        thinking = next((delta[name] for name in _THINKING if isinstance(delta.get(name), str)), "")
        for stream, piece in (
            (self.thinking, thinking), (self.answer, delta.get("content")), (self.refusal, delta.get("refusal")),
        ):  # fmt: skip
            if isinstance(piece, str) and piece:
                self._latest = time.monotonic()
                if self.first_token_seconds is None:
                    self.first_token_seconds = self._latest - self._started
                stream.add(piece)

    def _emit_thinking(self, text: str) -> None:
        """Emit separate reasoning between think tags, as models do that write it inline."""
        self._emit(text if self._shows_thinking else "<think>\n" + text)
        self._shows_thinking = True

    def _emit_answer(self, text: str) -> None:
        self.thinking.flush()
        self._emit("\n</think>\n\n" + text if self._shows_thinking else text)
        self._shows_thinking = False

    def _limit_s(self) -> float:
        """Return the seconds until the tightest limit."""
        now, settings = time.monotonic(), self._settings
        if self.finish_reason:
            return _AFTER_FINISH_S
        waiting = settings.silence_timeout_s if self.streamed else settings.first_token_timeout_s
        return max(0.0, min(self._latest + waiting, self._started + settings.total_timeout_s) - now)

    def _timeout(self) -> Failure:
        settings = self._settings
        if time.monotonic() - self._started >= settings.total_timeout_s:
            reason = f"is not done after {settings.total_timeout_s:g} s (total_timeout_s)"
        elif self.streamed:
            reason = f"sent no text for {settings.silence_timeout_s:g} s (silence_timeout_s)"
        else:
            reason = f"sent no text within {settings.first_token_timeout_s:g} s (first_token_timeout_s)"
        message = f"{settings.model} {reason}; the call was given up. Raise that limit, or look at the server's load."
        return Failure(ModelErrorKind.TIMEOUT, message, billed=True)

    def _broken(self, failure: Failure) -> Failure:
        """Return the failure for an attempt that broke off after some text; it was paid for, so it is not repeated."""
        if failure.kind is ModelErrorKind.SERVER:
            return replace(failure, again=False)
        message = f"the answer of {self._settings.model} broke off in the middle: the connection was closed. Try again."
        return Failure(ModelErrorKind.TRUNCATED_STREAM, message, billed=True)

    def _verdict(self) -> Failure | None:
        """Return None if the received text is a usable answer, else the failure."""
        model, reason = self._settings.model, self.finish_reason
        if self.refusal.characters or reason == "content_filter":
            why = f": {self.refusal.full_text()[:300]}" if self.refusal.characters else " (its content filter)"
            message = f"{model} refused to answer{why}. Change the instruction, or use another model."
            return Failure(ModelErrorKind.REFUSED, message, billed=True)
        if not reason:
            message = f"the answer of {model} ended without saying that it is complete. Try again."
            return Failure(ModelErrorKind.TRUNCATED_STREAM, message, again=not self.streamed, billed=True)
        if self.answer.full_text().strip():
            return None
        if reason == "length":
            limit = self._settings.max_output_tokens
            message = f"{model} used all {limit} tokens without writing an answer. Raise max_output_tokens."
            return Failure(ModelErrorKind.EMPTY, message, billed=True)
        asked = " It asks for a tool, and none is offered." if reason in ("tool_calls", "function_call") else ""
        return Failure(ModelErrorKind.EMPTY, f"{model} sent an empty answer.{asked} Try again.", billed=True)

    def _short_id(self, value: str) -> str | None:
        value = self._key.scrub(value[:100]) if self._key else value[:100]
        return value or None


def request_body(
    settings: ModelSettings, messages: Sequence[Mapping[str, str]], *, length_field: str, stream_usage: bool
) -> dict[str, Any]:
    """Return the JSON of a request to `chat/completions`."""
    body: dict[str, Any] = {"model": settings.model, "messages": list(messages), "stream": True, **settings.extra_body}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if not {"max_tokens", "max_completion_tokens"} & set(settings.extra_body):
        body[length_field] = settings.max_output_tokens
    if stream_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _counted(usage: object) -> TokenUsage | None:
    """Return the server's numbers if they are plausible."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int or min(prompt, completion) < 0 or not prompt + completion:
        return None
    if prompt + completion > _MOST_TOKENS:
        return None
    return TokenUsage(prompt, completion, cached_tokens=_cached(usage.get("prompt_tokens_details"), prompt))


def _cached(details: object, prompt: int) -> int:
    """Return how much of the prompt the server had kept, 0 where it does not say."""
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if type(cached) is int and 0 <= cached <= prompt else 0


__all__ = ["CUT", "REPLY_CHARACTERS_MAX", "RequestAttempt", "StreamText", "request_body"]
