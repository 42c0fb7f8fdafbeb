"""The errors between the workbench and a model's server; `llm.failure` reads the exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cutegen_core.propose.tokens import NOTHING_USED, TokenUsage
from cutegen_core.records.errors import CutegenError


class ModelErrorKind(StrEnum):
    AUTH = "auth"
    RATE_LIMITED = "rate_limited"
    TOO_LARGE = "too_large"
    UNREACHABLE = "unreachable"
    SERVER = "server"
    REFUSED = "refused"
    EMPTY = "empty"
    TRUNCATED_STREAM = "truncated_stream"
    TIMEOUT = "timeout"
    BAD_ANSWER = "bad_answer"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Charged:
    """The tokens that a failed call still costs.

    Attributes:
        text: what had been streamed of the answer.
        usage: what to charge the budget with; zeros where the server never took the request.
    """

    text: str = ""
    usage: TokenUsage = NOTHING_USED


class ModelError(CutegenError):
    """A call to a model failed.

    Attributes:
        status: HTTP status, 0 where there was none.
        attempts: requests made.
    """

    def __init__(
        self, message: str, kind: ModelErrorKind, charged: Charged | None = None, *, status: int = 0, attempts: int = 1
    ) -> None:
        super().__init__(message)
        self.kind, self.charged, self.status, self.attempts = kind, charged or Charged(), status, attempts


@dataclass(frozen=True)
class Failure:
    """A failed attempt.

    Attributes:
        again: another attempt may succeed.
        billed: the server may have begun to answer.
        retry_after_s: what the server asked for, None where it did not say.
        words: what the server said, scrubbed; "" where nothing.
    """

    kind: ModelErrorKind
    message: str
    again: bool = False
    billed: bool = False
    status: int = 0
    retry_after_s: float | None = None
    words: str = ""
