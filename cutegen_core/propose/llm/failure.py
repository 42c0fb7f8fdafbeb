"""Translate exceptions of the OpenAI package into failures that tell the user what to do next.

The exceptions end here: their texts may quote requests, so only scrubbed text leaves this module.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx2
import openai

from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key
from cutegen_core.propose.llm.wire import UnreadableAnswerError
from cutegen_core.propose.model_error import Failure, ModelErrorKind

_WORDS_MAX = 400
_RETRIED_STATUS = (408, 409, 425, 429)


def translate_error(error: Exception, settings: ModelSettings, key: Key | None) -> Failure:
    """Translate an exception of the package, its transport or its parser; raise any other again."""
    if isinstance(error, openai.APIStatusError):
        return _status_failure(error, settings, key)
    if isinstance(error, openai.APIConnectionError | httpx2.RequestError):
        return _connection_failure(error, settings)
    if isinstance(error, openai.APIResponseValidationError):
        return make_bad_answer(settings, "its answer is not what the API describes")
    if isinstance(error, openai.APIError):
        words = _words(error.body, key) or _scrubbed(error.message, key)
        if _is_about_length(error, words):
            return _too_large(settings, words)
        message = f"the server of {settings.name} broke off with an error: {words or 'no reason given'}. Try again."
        return Failure(ModelErrorKind.SERVER, message, again=True, billed=True, words=words)
    if isinstance(error, UnreadableAnswerError):
        return make_bad_answer(settings, str(error))
    if isinstance(error, ValueError | RecursionError):
        return make_bad_answer(settings, "a piece of its stream is not JSON")
    raise error


def make_bad_answer(settings: ModelSettings, reason: str) -> Failure:
    """Return the failure for an answer that does not follow the API."""
    advice = f"Check that {settings.base_url} is the address of an OpenAI-compatible API, with its /v1."
    return Failure(
        ModelErrorKind.BAD_ANSWER, f"the server of {settings.name} is not understood: {reason}. {advice}", billed=True
    )


def _status_failure(error: openai.APIStatusError, settings: ModelSettings, key: Key | None) -> Failure:
    status, words = error.status_code, _words(error.body, key)
    said = f" The server says: {words}" if words else ""
    if status in (401, 403):
        held = f"the key from {key.source}" if key else "a request without a key"
        late = "" if key else " CUTEGEN_API_KEY counts only if the engine was started with it."
        advice = f"Check the key and what it may use; see Setup for where keys are looked for.{late}"
        return Failure(
            ModelErrorKind.AUTH, f"{held} was refused ({status}). {advice}{said}", status=status, words=words
        )
    if status == 413 or (status in (400, 422) and _is_about_length(error, words)):
        return _too_large(settings, words, status)
    if status == 429:
        return _rate_failure(error, settings, words, said)
    if status >= 500 or status in _RETRIED_STATUS:
        message = f"the server of {settings.name} failed ({status}). Try again later, or look at its log.{said}"
        wait = _retry_after(error.response)
        return Failure(ModelErrorKind.SERVER, message, True, status=status, retry_after_s=wait, words=words)
    return Failure(ModelErrorKind.SERVER, _rejected(status, settings) + said, status=status, words=words)


def _rejected(status: int, settings: ModelSettings) -> str:
    if 300 <= status < 400:
        return f"{settings.base_url} redirects elsewhere ({status}), which is not followed. Write the final address."
    if status in (404, 405):
        return f"{settings.base_url} does not know the model {settings.model!r}, or is not the API ({status})."
    return f"the server of {settings.name} rejects the request ({status}). Check the model's settings."


def _rate_failure(error: openai.APIStatusError, settings: ModelSettings, words: str, said: str) -> Failure:
    wait = _retry_after(error.response)
    spent = error.code == "insufficient_quota" or "quota" in words.lower()
    when = f" It asks to wait {wait:.0f} s." if wait else ""
    advice = "The quota is used up; look at the account." if spent else f"Too many requests for now.{when}"
    message = f"the server of {settings.name} turns calls away (429). {advice}{said}"
    return Failure(ModelErrorKind.RATE_LIMITED, message, not spent, status=429, retry_after_s=wait, words=words)


def _too_large(settings: ModelSettings, words: str, status: int = 0) -> Failure:
    said = f" The server says: {words}" if words else ""
    message = f"the prompt is too large for {settings.model}. Shorten it, or lower max_output_tokens.{said}"
    return Failure(ModelErrorKind.TOO_LARGE, message, status=status, words=words)


def _is_about_length(error: openai.APIError, words: str) -> bool:
    said = words.lower()
    about = "context" in said and any(word in said for word in ("length", "exceed", "maximum", "window", "size"))
    return error.code == "context_length_exceeded" or about


def _connection_failure(error: Exception, settings: ModelSettings) -> Failure:
    causes = list(_causes(error))
    unreadable = next((c for c in causes if isinstance(c, UnreadableAnswerError)), None)
    if unreadable is not None:
        return make_bad_answer(settings, str(unreadable))
    if any(isinstance(c, httpx2.DecodingError) for c in causes):
        return make_bad_answer(settings, "its compressed answer cannot be unpacked")
    if any(isinstance(c, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError) for c in causes):
        reason = _reason(causes) or f"no connection within {settings.connect_timeout_s:g} s"
        advice = "Check the address and that the server runs."
        message = f"{settings.base_url} cannot be reached: {reason}. {advice}"
        return Failure(ModelErrorKind.UNREACHABLE, message, again=not any(isinstance(c, ssl.SSLError) for c in causes))
    if isinstance(error, openai.APITimeoutError):
        message = f"the server of {settings.name} stopped taking the request. Look at its log."
        return Failure(ModelErrorKind.TIMEOUT, message, billed=True)
    message = f"the server of {settings.name} closed the connection before it answered. Try again, or look at its log."
    return Failure(ModelErrorKind.UNREACHABLE, message, again=True, billed=True)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _reason(causes: list[BaseException]) -> str:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as expected; is https right?"
        if isinstance(cause, socket.gaierror):
            return "its name is not known"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
    return ""


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds that the server asks to wait (a number or an HTTP date), or None without a usable value."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _words(body: object, key: Key | None) -> str:
    """Return the message of an error body, in one line."""
    said = body
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and name in said:
            said = said[name]
    if isinstance(said, str) and "<html" in said[:1000].lower():
        return "(a web page)"
    return _scrubbed(said if isinstance(said, str) else json.dumps(said, default=str) if said else "", key)


def _scrubbed(text: str, key: Key | None) -> str:
    line = " ".join(text[: 4 * _WORDS_MAX].split())
    line = key.scrub(line) if key else line
    return line if len(line) <= _WORDS_MAX else line[:_WORDS_MAX] + " ..."
