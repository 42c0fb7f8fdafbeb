"""Choose the stops of a session's slides: its beginning, every step that left something to show, and its result."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.share.slides.step_words import mark, shape_of, verdict
from cutegen_core.trajectory.state import Step
from cutegen_core.views import SessionView

START, RESULT = "start", "result"
GOES_ON = (SessionState.READY, SessionState.RUNNING, SessionState.AWAITING_REVIEW)


class Stop(NamedTuple):
    """A stop.

    Attributes:
        name: as in addresses: "start", "7" or "result".
        number: of the step, 0 for the first and the last stop.
        mark, word, kind: shape, word and colour of the verdict.
        is_best: its kernel is the best one so far.
    """

    name: str
    number: int
    mark: str
    word: str
    kind: str = ""
    is_best: bool = False

    @property
    def title(self) -> str:
        """Return "Problem", "Step 7" or "Result"."""
        return f"Step {self.number}" if self.number else {START: "Problem", RESULT: "Result"}[self.name]


class Deck(NamedTuple):
    """A session as stops, in order."""

    view: SessionView
    stops: tuple[Stop, ...]

    @property
    def goes_on(self) -> bool:
        """Return whether more may happen, by itself or after an answer."""
        return self.view.state.status in GOES_ON

    @property
    def newest(self) -> int:
        """Return the index of the last step, of the beginning before the first one."""
        return max((i for i, stop in enumerate(self.stops) if stop.number), default=0)

    def find(self, name: str) -> int | None:
        """Return the index of the stop with this name. A step without a stop leads to the next one that has one; None
        if the session has no such step."""
        found = next((i for i, stop in enumerate(self.stops) if stop.name == name), None)
        if found is None and name.isdecimal() and 0 < int(name) <= len(self.view.steps):
            return next((i for i, stop in enumerate(self.stops) if stop.number > int(name)), self.newest)
        return found


def deck(view: SessionView) -> Deck:
    """Return all stops of a session."""
    state, best = view.state, view.state.best_step
    stops = [Stop(START, 0, "◇", "the problem"), *(_stop(step, best) for step in state.steps if _has_stop(step))]
    if state.best or state.status not in GOES_ON:
        stops.append(Stop(RESULT, 0, "★", "so far" if state.status in GOES_ON else "the result"))
    return Deck(view, tuple(stops))


def _has_stop(step: Step) -> bool:
    """Return whether a step has a stop; one that only carried an instruction to the next is shown there."""
    return bool(step.candidate or step.tried) or step.outcome in (None, Outcome.FAILED)


def _stop(step: Step, best: Step | None) -> Stop:
    return Stop(str(step.number), step.number, mark(step), verdict(step), shape_of(step.status), step is best)
