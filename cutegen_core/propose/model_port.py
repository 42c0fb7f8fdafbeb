"""The port `Model`: a server or recording that answers a prompt. Where a person answers, the session waits instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cutegen_core.records.event import Role
from cutegen_core.trajectory.state import State


@dataclass(frozen=True)
class ModelReply:
    """The reply to a prompt.

    Attributes:
        finish: why it ended: "stop", "length", "content_filter", ...
        estimated: the token counts are estimates, the server gave none.
        error: why there is no usable answer; the session is interrupted and can be resumed. "" when there is one.
        stopped: the person ended it.
        cached_tokens: those of the prompt that the server had kept.
        cost: None where the model has no prices.
    """

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float
    error: str = ""
    stopped: bool = False
    cached_tokens: int = 0
    cost: float | None = None


class OneModel(NamedTuple):
    """The only model that a session asks.

    Attributes:
        model: as its server calls it.
        cached_price: what a token costs that the server kept, of the price of a new one.
    """

    model: str
    cached_price: float


class Line(Protocol):
    """The listener of a running call."""

    def say(self, text: str) -> None:
        """Show the text that has arrived so far."""

    def stopped(self) -> bool:
        """Return whether the call must end."""


class PlannedCall(Protocol):
    """A call that is ready; nothing has been sent yet."""

    @property
    def model(self) -> str: ...

    @property
    def reserved_tokens(self) -> int: ...

    @property
    def reserved_cost(self) -> float | None: ...

    def carry_out(self, line: Line) -> ModelReply:
        """Send the prompt and return the reply; end within a second of `line.stopped()`."""


class Model(Protocol):
    """What answers prompts: a server, or a recording."""

    def plan(self, role: Role, prompt: str, state: State) -> PlannedCall:
        """Reserve what the call may cost; raise BudgetError if that exceeds what is left."""

    def context_tokens(self, state: State) -> int:
        """Return how many tokens a prompt may have, 0 if unknown."""

    def only_one(self, state: State) -> OneModel | None:
        """Return the model that answers every role of the session; None for several, and for a recording."""
