"""The port `Model`: who answers a prompt (a server, a recording). A person is not one: the session waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutegen_core.records.event import Role
from cutegen_core.trajectory.state import State


@dataclass(frozen=True)
class ModelReply:
    """What came back.

    Attributes:
        finish: why it ended: "stop", "length", "content_filter", ...
        estimated: the token counts are estimates, the server gave none.
        error: why there is no usable answer; the session is interrupted and can be resumed. "" when there is one.
        stopped: the person ended it.
    """

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float
    error: str = ""
    stopped: bool = False


class Line(Protocol):
    """The person at the other end while a call runs."""

    def say(self, text: str) -> None:
        """Text as it arrives."""

    def stopped(self) -> bool:
        """True when the call is to be ended."""


class PlannedCall(Protocol):
    """A call that is ready to go; nothing has been sent yet."""

    @property
    def model(self) -> str: ...

    @property
    def reserved_tokens(self) -> int: ...

    def carry_out(self, line: Line) -> ModelReply:
        """Sends the prompt; ends within a second of `line.stopped()`."""


class Model(Protocol):
    def plan(self, role: Role, prompt: str, state: State) -> PlannedCall:
        """Reserves what the call may cost. Raises BudgetError when it does not fit what is left."""

    def context_tokens(self, state: State) -> int:
        """How long a prompt may be, 0 when that is not known."""
