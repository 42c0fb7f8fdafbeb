"""Ask a language model and stream its answer: the transport for every role of a model.

1. `ChatModel.ask` runs the call in its own thread (`stoppable`), passes on text as it arrives and obeys a stop.
2. An attempt (`stream`) that fails before any text came may be repeated, within limits and as the server asks. One that
   may have been billed is repeated at most once, so a call never costs much more than its reservation.
3. A refusal shows which fields a server does not accept (`stream_options`, `max_tokens`); this is remembered.
4. Every other failure ends in a `ModelError` with the cause, advice, and the amount to charge.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cutegen_core.propose.llm import stoppable
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key
from cutegen_core.propose.llm.stream import CUT, RequestAttempt, request_body
from cutegen_core.propose.llm.wire import Wire, make_client
from cutegen_core.propose.model_error import Charged, Failure, ModelError, ModelErrorKind
from cutegen_core.propose.tokens import NOTHING_USED, TokenUsage, estimate_tokens

__all__ = ["CUT", "ChatModel", "Message", "Reply", "estimate_prompt_tokens"]

RETRY_AFTER_MAX_S = 60.0
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.5, 8.0
_TOKENS_PER_MESSAGE = 4


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True)
class Reply:
    """Answer of a model.

    Attributes:
        finish_reason: "stop"; "length" if max_output_tokens ended it; "cut" if it exceeded 4 M characters; or the
            server's own word.
        estimated: the server gave no token numbers.
        seconds: the whole call including pauses; first_token_seconds is the last attempt's.
        attempts: number of requests.
        reasoning: text that the server sent apart from the answer, usually "".
        lost: tokens of earlier attempts that may have been billed.
        cached_tokens: those of the prompt that the server had kept.
        streamed: False if the server sent one document instead of a stream.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float
    first_token_seconds: float
    attempts: int
    request_id: str | None
    reasoning: str = ""
    lost: TokenUsage = NOTHING_USED
    cached_tokens: int = 0
    streamed: bool = True

    @property
    def usage(self) -> TokenUsage:
        """Tokens to charge, lost attempts included."""
        own = TokenUsage(self.prompt_tokens, self.completion_tokens, self.estimated, self.cached_tokens)
        return _sum(own, self.lost)


@dataclass(frozen=True)
class Dialect:
    """Fields that one server accepts."""

    stream_usage: bool = True
    length_field: str = "max_tokens"


# Fields that a server refused once are not sent again; each value is a plain record, replaced as a whole.
_LEARNED: dict[tuple[str, str], Dialect] = {}


class ChatModel:
    """One model on one server. Holds no connection between calls; several threads may use it."""

    def __init__(self, settings: ModelSettings, key: Key | None) -> None:
        self.settings = settings
        self._key = key

    def ask(
        self,
        messages: Sequence[Message],
        *,
        progress: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Reply:
        """Return the answer to the messages.

        `progress` receives the text as it arrives and `stopped` is called about ten times a second, both in the calling
        thread. Reasoning that is sent apart from the answer appears in `progress` between think tags, and in
        `Reply.reasoning`.

        Raises:
            ModelError: with its kind, advice, and the amount to charge; CANCELLED if `stopped` returned True.
        """
        call = _ChatCall(self.settings, self._key, messages)
        try:
            return stoppable.run(call.answer, progress=progress, stopped=stopped)
        except stoppable.StoppedWorkError:
            message = "the call was stopped; what had been sent may be billed"
        raise ModelError(message, ModelErrorKind.CANCELLED, call.charged(call.sent), attempts=call.attempts)


def estimate_prompt_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of the messages, for the reservation."""
    return sum(estimate_tokens(m.text) + _TOKENS_PER_MESSAGE for m in messages)


class _ChatCall:
    """The attempts at one question."""

    def __init__(self, settings: ModelSettings, key: Key | None, messages: Sequence[Message]) -> None:
        self._settings, self._key = settings, key
        self._messages = [{"role": m.role, "content": m.text} for m in messages]
        self._prompt_tokens = estimate_prompt_tokens(messages)
        self._started = time.monotonic()
        self._wire: Wire | None = None
        self._attempt: RequestAttempt | None = None
        self._lost = NOTHING_USED
        self._pauses = 0
        self.attempts = 0

    @property
    def sent(self) -> bool:
        """Whether the server may be working on the latest attempt."""
        return self._wire is not None and self._wire.sent

    def charged(self, billed: bool) -> Charged:
        """Return the amount to charge if the latest attempt is the last."""
        if self._attempt is None or not billed:
            return Charged(usage=self._lost)
        return Charged(self._attempt.answer.full_text(), _sum(self._attempt.usage(self._prompt_tokens), self._lost))

    async def answer(self, emit: Callable[[str], None]) -> Reply:
        """Make attempts until one succeeds.

        Raises:
            ModelError: no further attempt is allowed.
        """
        self._wire = Wire(self._settings, self._key)
        async with make_client(self._settings, self._wire) as openai_client:
            while True:
                self._wire.sent = False
                self.attempts += 1
                self._attempt = RequestAttempt(self._settings, self._key, self._wire, emit)
                failure = await self._attempt.run(openai_client, self._body())
                if failure is None:
                    return self._reply(self._attempt)
                if not self._learn(failure):
                    await asyncio.sleep(self._pause_s(failure, self._attempt))

    def _pause_s(self, failure: Failure, attempt: RequestAttempt) -> float:
        """Return the seconds to wait before the next attempt.

        Raises:
            ModelError: no further attempt is allowed.
        """
        billed = failure.billed and self.sent
        left = self._pauses < self._settings.retries and not (billed and self._lost.tokens)
        wait = failure.retry_after_s
        if not failure.again or attempt.streamed or not left or (wait or 0.0) > RETRY_AFTER_MAX_S:
            tried = f" ({self.attempts} attempts)" if self.attempts > 1 else ""
            charged = self.charged(billed)
            self._wire_idle()
            message = failure.message + tried
            raise ModelError(message, failure.kind, charged, status=failure.status, attempts=self.attempts)
        if billed:
            self._lost = attempt.usage(self._prompt_tokens)
        self._wire_idle()
        pause = min(_FIRST_PAUSE_S * 2**self._pauses, _PAUSE_MAX_S) * random.uniform(0.75, 1.0)
        self._pauses += 1
        return pause if wait is None else wait

    def _wire_idle(self) -> None:
        """Note that no server works for us between attempts, so that a stop here costs nothing more."""
        if self._wire is not None:
            self._wire.sent = False

    def _body(self) -> dict[str, object]:
        dialect = _LEARNED.get((self._settings.base_url, self._settings.model), Dialect())
        return request_body(
            self._settings, self._messages, length_field=dialect.length_field, stream_usage=dialect.stream_usage
        )

    def _learn(self, failure: Failure) -> bool:
        """Return whether the server refused a field that a request can omit, and remember it."""
        where = (self._settings.base_url, self._settings.model)
        dialect = _LEARNED.get(where, Dialect())
        if failure.status not in (400, 422):
            return False
        if dialect.stream_usage and ("stream_options" in failure.words or "include_usage" in failure.words):
            _LEARNED[where] = replace(dialect, stream_usage=False)
        elif dialect.length_field == "max_tokens" and "max_completion_tokens" in failure.words:
            _LEARNED[where] = replace(dialect, length_field="max_completion_tokens")
        else:
            return False
        return True

    def _reply(self, attempt: RequestAttempt) -> Reply:
        usage = attempt.usage(self._prompt_tokens)
        return Reply(
            text=attempt.answer.full_text(),
            finish_reason=attempt.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            estimated=usage.estimated,
            seconds=time.monotonic() - self._started,
            first_token_seconds=attempt.first_token_seconds or 0.0,
            attempts=self.attempts,
            request_id=attempt.request_id,
            reasoning=attempt.thinking.full_text(),
            lost=self._lost,
            cached_tokens=usage.cached_tokens,
            streamed=not attempt.was_document,
        )


def _sum(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    return TokenUsage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.estimated or other.estimated,
        one.cached_tokens + other.cached_tokens,
    )
