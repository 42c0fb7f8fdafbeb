"""Guide a newcomer over the real session page, once: at the first shipped recording that is opened.

A card beside each part says what it is for. It covers nothing that it explains, everything can be used meanwhile, and
the first answer to it is kept in the workspace, so that it does not come back. Its behaviour is in `tour.js`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from cutegen_core.machine import workspace
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.compare_present.imported import RECORDINGS
from pages.components.shared import ui_state

_STOPS = (
    (".st-key-steps", "Steps", "One row per step, newest first; ★ is the best kernel. Open any: a click, or O and N."),
    (".cg-rail", "Stages", "A candidate is compiled, tested, and on a GPU timed. The first stage that fails ends its "
     "trial, and the next proposal is told why."),
    (".st-key-code-pane", "The change", "What this step changed in the kernel: inline, side by side, or the source."),
    (".st-key-evidence-body", "The evidence", "Right or wrong, how fast against what, and why. Pick a pane above it; V "
     "compares the step with the best."),
    ('[data-testid="stBottom"]', "Your decisions", "In a session of your own you approve, edit, redirect or rewind "
     "here. This one is read-only: Replay (G) runs it again on this machine. H lists all keys."),
)  # fmt: skip
"""Where a card stands, its title, and what it says."""
_TOURING = "touring"


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    js = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    return st.components.v2.component("cutegen-tour", js=js)


def render_tour(view: SessionView) -> None:
    """Draw the tour where it is due; it goes on in the tab in which it was begun."""
    if access.looks_on() or not _is_shipped(view):
        return
    if ui_state.text(_TOURING) != view.id and seen_file().exists():
        return
    stops = [{"at": where, "title": title, "text": words} for where, title, words in _STOPS]
    _component()(key="tour", data={"stops": stops}, on_answer_change=ui_state.noted(_answer, view.id))


def _is_shipped(view: SessionView) -> bool:
    return view.state.settings.origin in {f"imported from {path.name}" for path in RECORDINGS.glob("*.jsonl*")}


def _answer(session: str) -> None:
    """Keep that it was seen; it goes on here until it is over."""
    workspace.make_private(seen_file()).touch()
    if ui_state.reported("tour", "answer") == "next":
        ui_state.put(_TOURING, session)
    else:
        ui_state.forget(_TOURING)


def seen_file() -> Path:
    """Return the file that is there once the tour was answered."""
    return workspace.home() / "tour-seen"
