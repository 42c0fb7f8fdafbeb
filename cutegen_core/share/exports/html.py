"""A session as one HTML file: the slides of `presentation`, and below each step all that is known of it.

1. Without scripts it is a report, read from top to bottom; with its own script the arrow keys walk it.
2. Nothing in it reaches for anything: styles, script and pictures are inline, and a content policy that names the hash
   of its own style and script forbids the rest. Every text of a person, a model or a kernel is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cutegen_core import __version__
from cutegen_core.share import slides
from cutegen_core.share.slides import Deck, Stop, svg
from cutegen_core.share.slides.drawing import TEMPLATES, render
from cutegen_core.trajectory.store import Store
from cutegen_core.views import CallView, session_view, step_evidence, step_view

_LOG_CHARACTERS = 20_000
_ROWS, _NOTES = 20, 6
"""Rows of each table of evidence, and notes of each row."""
_PAGE_STYLE = (TEMPLATES / "document.css").read_text(encoding="utf-8")
_SCRIPT = (TEMPLATES / "document.js").read_text(encoding="utf-8")


def document(store: Store, session: str) -> str:
    """Return the whole file; StoreError if there is no such session."""
    deck = slides.deck(session_view(store, session))
    style = f"{slides.STYLE}{svg.STYLE}{_PAGE_STYLE}"
    return render(
        "document.html.jinja",
        deck=deck,
        settings=deck.view.state.settings,
        state=deck.view.state,
        sections=[_section(store, deck, stop) for stop in deck.stops],
        policy=Markup(_policy(style, _SCRIPT)),
        style=Markup(style),
        script=Markup(_SCRIPT),
        version=__version__,
        moment=_moment,
    )


def write_document(store: Store, session: str, output: Path) -> None:
    """Write the file."""
    output.write_text(document(store, session), encoding="utf-8")


def anchor(stop: Stop) -> str:
    """Return where the address of a stop leads: "start", "step-7", "result"."""
    return f"step-{stop.number}" if stop.number else stop.name


def _section(store: Store, deck: Deck, stop: Stop) -> dict[str, Any]:
    slide = slides.draw(slides.slide(store, deck, stop), pane=None, pictures="inline")
    details = _details(store, deck, stop.number) if stop.number else None
    return {"stop": stop, "anchor": anchor(stop), "slide": slide, "details": details}


def _details(store: Store, deck: Deck, number: int) -> dict[str, Any]:
    """Collect what does not fit on the slide of a step."""
    shown = step_view(store, deck.view.id, number)
    trial, found = shown.trial, step_evidence(store, deck.view.state, shown)
    return {
        "step": shown.step,
        "calls": [_call(call) for call in shown.calls],
        "trial": trial,
        "log": trial.log[:_LOG_CHARACTERS] if trial else "",
        "cut": bool(trial and len(trial.log) > _LOG_CHARACTERS),
        "sections": [section.clipped(_ROWS, _NOTES) for section in found.sections()] if found else [],
    }


def _call(call: CallView) -> dict[str, Any]:
    answer = call.answer
    tokens = f"{answer.prompt_tokens} + {answer.completion_tokens} tokens" if answer and answer.prompt_tokens else ""
    words = [str(call.role), call.model, tokens, answer.error if answer else "the answer was lost"]
    return {"title": ", ".join(w for w in words if w), "prompt": call.prompt, "reply": call.reply or ""}


def _policy(style: str, script: str) -> str:
    """Return a content policy that allows nothing but the file's own style and script."""
    own = f"style-src {_hash(style)}; script-src {_hash(script)}"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    """Return a source expression of the content policy that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""
