"""A decision: the answer of a person, or of the policy, to a step. It names what was shown: a stale one is refused.

Before a session, a person decides how much a step may try and what ends the session (`Effort`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class DecisionKind(StrEnum):
    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    REDIRECT = "redirect"
    REPLY = "reply"
    REWIND = "rewind"
    ACCEPT = "accept"
    STOP = "stop"
    RESUME = "resume"
    AUTONOMY = "autonomy"
    BUDGET = "budget"
    STANDING = "standing"
    MEMORY = "memory"
    STUDY = "study"
    BRANCH = "branch"
    CHOOSE = "choose"


class StudyKind(StrEnum):
    """A longer look at a kernel that was written already."""

    SWEEP = "sweep"
    """The points of the parameters it declares."""
    PROFILE = "profile"
    """What the profiler measures."""
    ABLATION = "ablation"
    """What each hunk of its change is worth."""


class Autonomy(StrEnum):
    """How far the session goes by itself. Switchable at any moment."""

    STEP = "step"
    UNTIL_FAILURE = "until failure"
    AUTO = "auto"
    PLAN_ONLY = "plan only"


class Gate(StrEnum):
    """Where a session waits for a decision. REPLY and INSTRUCTION open only when the proposer needs a person."""

    PROMPT = "prompt"
    ANSWER = "answer"
    PLAN = "plan"
    DIFF = "diff"
    PROMOTION = "promotion"
    REPLY = "reply"
    INSTRUCTION = "instruction"


_NEEDS: Mapping[DecisionKind, tuple[str, ...]] = {
    DecisionKind.APPROVE: ("gate",),
    DecisionKind.EDIT: ("source",),
    DecisionKind.REJECT: ("text",),
    DecisionKind.REDIRECT: ("text",),
    DecisionKind.REPLY: ("text",),
    DecisionKind.REWIND: ("step",),
    DecisionKind.ACCEPT: ("candidate",),
    DecisionKind.AUTONOMY: ("autonomy",),
    DecisionKind.BUDGET: ("max_steps",),
    DecisionKind.MEMORY: ("step",),
    DecisionKind.STUDY: ("study", "candidate"),
    DecisionKind.BRANCH: ("step",),
    DecisionKind.CHOOSE: ("step", "candidate"),
}

UNBOUND = frozenset(
    {
        DecisionKind.STOP,
        DecisionKind.RESUME,
        DecisionKind.AUTONOMY,
        DecisionKind.BUDGET,
        DecisionKind.STANDING,
        DecisionKind.MEMORY,
        DecisionKind.STUDY,
    }
)
"""Kinds that fit whatever has happened since the page was drawn."""


@dataclass(frozen=True)
class Decision:
    """An answer to a step.

    Attributes:
        seen: sequence number of the last event the person had seen that could change the meaning of this answer.
        gate, candidate: what is approved: the open gate and the hash of the source that was shown.
        text: a reason, an instruction, a pasted reply, what an edit is, what to remember of a step; at the prompt gate
            the prompt as the person changed it.
        step: where to rewind to or to branch from (0: before the first step), what to remember is about, or whose
            alternative is chosen; `candidate` is its key.
        max_steps, max_tokens, max_cost, max_minutes: the budgets from now on; None leaves one as it is.
        by: who decided, "person" or "policy".
    """

    kind: DecisionKind
    seen: int = 0
    gate: Gate | None = None
    candidate: str | None = None
    source: str | None = None
    text: str = ""
    step: int | None = None
    autonomy: Autonomy | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_minutes: float | None = None
    by: str = "person"
    study: StudyKind | None = None

    def __post_init__(self) -> None:
        missing = [name for name in _NEEDS.get(self.kind, ()) if getattr(self, name) in (None, "")]
        if missing:
            raise ValueError(f"to {self.kind}, give {', '.join(missing)}")


class Limit(StrEnum):
    """What a budget is of."""

    STEPS = "steps"
    TOKENS = "tokens"
    MONEY = "money"
    MINUTES = "minutes"


MOST_CANDIDATES = 8
"""Candidates that a step may have at most."""


class Ideas(StrEnum):
    """How many ideas a step may try at once."""

    ONE = "one"
    FEW = "few"
    FREE = "free"


@dataclass(frozen=True)
class Effort:
    """How much a step may try, and what ends the session before its steps and tokens are used up.

    Attributes:
        enough: share of the bound from which on no further idea is asked for; 0 for never.
        width: candidates of a step; all are tried, and the best is kept.
        models: names of model settings that write these in turn; empty for the session's own.
        max_cost: budget of money, in the currency of the models' prices; None for no limit.
        max_minutes: budget of the time in which the session works; None for no limit.
        tokens_per_percent, cost_per_percent: what 1 % less time is worth at most, in tokens or money; None for any
            price. Where a step is expected to take more, no further idea is asked for.
        conversation: a question may stand behind the exchange before it, where that is cheaper than the whole kernel.
    """

    ideas: Ideas = Ideas.ONE
    enough: float = 0.92
    width: int = 1
    models: tuple[str, ...] = ()
    max_cost: float | None = None
    max_minutes: float | None = None
    tokens_per_percent: float | None = None
    cost_per_percent: float | None = None
    conversation: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.enough <= 1:
            raise ValueError(f"a share of the bound lies between 0 and 1, not at {self.enough}")
        if not 1 <= self.width <= MOST_CANDIDATES:
            raise ValueError(f"a step has between 1 and {MOST_CANDIDATES} candidates, not {self.width}")
        for name in ("max_cost", "max_minutes", "tokens_per_percent", "cost_per_percent"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be above 0, not {value}; leave it out for no limit")

    @property
    def needs_prices(self) -> bool:
        """Whether money limits the session, so that each of its models needs prices."""
        return self.max_cost is not None or self.cost_per_percent is not None
