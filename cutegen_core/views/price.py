"""What a session paid a model for each kernel that it promoted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cutegen_core.records.event import Outcome
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.state import State


class Price(NamedTuple):
    """What was paid in all, and how many kernels became the best for it, the seed among them; a sweep pays nothing."""

    tokens: int
    calls: int
    promoted: int

    @property
    def words(self) -> str:
        """Write "8,200 tokens and 2.5 calls for each of 4 promoted kernels"; "" where no model was called."""
        if not self.calls:
            return ""
        if not self.promoted:
            return f"{self.tokens:,} tokens and {counted(self.calls, 'call')}, no kernel promoted"
        return f"{self.each('tokens and')} for each of {counted(self.promoted, 'promoted kernel')}"

    def each(self, comma: str = "tokens,") -> str:
        """Write what a promoted kernel cost; there must be one."""
        calls = self.calls / self.promoted
        return f"{self.tokens / self.promoted:,.0f} {comma} {calls:.3g} {'call' if calls == 1 else 'calls'}"


def paid_lines(state: State) -> Iterator[str]:
    """Yield what a session took, for a terminal: tokens and calls for each promoted kernel, money, minutes."""
    if paid := price(state).words:
        yield f"paid: {paid}"
    if state.cost is not None or state.max_cost is not None:
        of = f" of {state.max_cost:g}" if state.max_cost is not None else ""
        yield f"money: {state.cost or 0:.4g}{of}"
    if state.max_minutes is not None:
        yield f"worked: {state.worked_s / 60:.1f} of {state.max_minutes:g} minutes"


def price(state: State) -> Price:
    """Return what the calls of a session cost, and what they brought."""
    calls = sum(bool(call.model) for step in state.steps for call in step.calls)
    promoted = sum(step.outcome is Outcome.PROMOTED and bool(step.calls) for step in state.steps)
    return Price(state.tokens, calls, promoted)
