"""What a pane of the evidence is, and what it is given to draw."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from cutegen_core import views
from cutegen_core.records.evidence import Evidence
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView


class PaneInput:
    """What a pane can draw.

    Attributes:
        shown: the step that is open.
        tried: the step whose trial is drawn: the open one, or the one that it mends while it has no trial; its `source`
            is the kernel file.
    """

    def __init__(self, store: Store, view: SessionView, shown: StepView, tried: StepView) -> None:
        self.store, self.view, self.shown, self.tried = store, view, shown, tried

    @property
    def trial(self) -> Trial:
        """Return the trial; a pane with `needs_trial` is drawn only where there is one."""
        assert self.tried.trial is not None
        return self.tried.trial

    @cached_property
    def evidence(self) -> Evidence:
        """Return the trial in words."""
        found = views.step_evidence(self.store, self.view.state, self.tried)
        assert found is not None
        return found


def always(_: StepView) -> bool:
    """Show a pane for every step."""
    return True


class Pane(NamedTuple):
    """One pane.

    Attributes:
        key: in the address, `?pane=KEY`.
        title: on the switch between the panes.
        shown_when: False hides the pane for a step.
        needs_trial: until the step was tried, the page says why there is no evidence instead of drawing the pane.
    """

    key: str
    title: str
    render: Callable[[PaneInput], None]
    shown_when: Callable[[StepView], bool] = always
    needs_trial: bool = True
