"""Test a connection for the Setup page: show what a server answers before a session depends on it.

1. List the models; not all servers allow that.
2. Stream one short question, which costs a few tokens and shows whether streaming and token numbers work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx2
import openai

from cutegen_core.propose.llm import stoppable
from cutegen_core.propose.llm.chat import ChatModel, Message
from cutegen_core.propose.llm.failure import translate_error
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key
from cutegen_core.propose.llm.wire import UnreadableAnswerError, Wire, make_client
from cutegen_core.propose.model_error import ModelError, ModelErrorKind

_LISTED_MAX = 500
_NAME_MAX = 200
_LIST_WAIT_S = 10.0
_QUESTION = Message("user", "Answer with the single word: ready")
_ANSWER_TOKENS = 32


@dataclass(frozen=True)
class ConnectionResult:
    """Result of the connection test.

    Attributes:
        reachable: a server that speaks the API answered, if only with a refusal.
        usable: a question was answered.
        models: names that the server lists, the first 500.
        listing: why there are none, "" if there are.
        streaming: the answer came as a stream; otherwise text appears all at once.
        usage: the server counts tokens; otherwise they are estimated.
        seconds: of the question.
        message: the result in a sentence or two, with advice.
    """

    reachable: bool
    usable: bool
    models: tuple[str, ...]
    listing: str
    streaming: bool
    usage: bool
    seconds: float
    message: str


def probe_server(
    settings: ModelSettings, key: Key | None, *, stopped: Callable[[], bool] = lambda: False
) -> ConnectionResult:
    """Test the connection; failures are part of the result, never an exception."""
    models, listing = _listing(settings, key, stopped)
    started = time.monotonic()
    short = replace(settings, max_output_tokens=_ANSWER_TOKENS, retries=0)
    try:
        reply = ChatModel(short, key).ask([_QUESTION], progress=lambda text: None, stopped=stopped)
    except ModelError as error:
        seconds = time.monotonic() - started
        thinks = error.kind is ModelErrorKind.EMPTY
        away = error.kind in (ModelErrorKind.UNREACHABLE, ModelErrorKind.CANCELLED, ModelErrorKind.BAD_ANSWER)
        message = f"{settings.model} answers; it used the short answer for reasoning." if thinks else str(error)
        counted = thinks and not error.charged.usage.estimated
        return ConnectionResult(not away, thinks, models, listing, thinks, counted, seconds, message)
    unknown = f" The server does not list {settings.model!r}." if models and settings.model not in models else ""
    counts = "counts tokens" if not reply.estimated else "does not count tokens: estimates are used"
    message = f"{settings.model} answered in {reply.seconds:.1f} s; the server {counts}.{unknown}"
    return ConnectionResult(True, True, models, listing, reply.streamed, not reply.estimated, reply.seconds, message)


def _listing(settings: ModelSettings, key: Key | None, stopped: Callable[[], bool]) -> tuple[tuple[str, ...], str]:
    """Return the server's models, or why there is no list."""

    async def ask(_: Callable[[str], None]) -> object:
        wire = Wire(settings, key)
        async with make_client(settings, wire) as openai_client, asyncio.timeout(_LIST_WAIT_S):
            return await openai_client.get("/models", cast_to=object)

    try:
        answer = stoppable.run(ask, progress=lambda text: None, stopped=stopped)
    except stoppable.StoppedWorkError:
        return (), "stopped"
    except TimeoutError:
        return (), f"the list of models did not come within {_LIST_WAIT_S:g} s"
    except (openai.APIError, httpx2.RequestError, ValueError, RecursionError, UnreadableAnswerError) as error:
        status = getattr(error, "status_code", 0)
        return (), "the server has no list of models" if status in (404, 405, 501) else translate_error(
            error, settings, key
        ).message
    names = _names(answer)
    return names, "" if names else "the server's list of models is empty or not understood"


def _names(answer: object) -> tuple[str, ...]:
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return ()
    names = (entry.get("id") for entry in entries[:_LISTED_MAX] if isinstance(entry, dict))
    return tuple(name[:_NAME_MAX] for name in names if isinstance(name, str) and name.isprintable())
