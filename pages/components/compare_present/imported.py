"""Import sessions from elsewhere, open the shipped recordings, and replay a session."""

from __future__ import annotations

import base64
import gzip
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from cutegen_core import views
from cutegen_core.records import older
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import counted
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components import ASSETS
from pages.components.access import access
from pages.components.shared import places, ui_state
from pages.components.shared.file_choice import render_file_choice
from pages.components.shared.texts import escape_html, note, plain_label, quiet

if TYPE_CHECKING:
    from cutegen_core.share.imports import Imported

RECORDINGS = ASSETS / "recordings"
PICTURES = ASSETS / "recording-pictures"
"""`docs.recording_pictures` draws them from the recordings."""
CARDS, ACROSS = 6, 3
"""Recordings with a picture on the start page, and of these in a row."""
UPLOADS = ("jsonl", "gz", "json")
_EXECUTORS = {ExecutorKind.CPU: "the emulator", ExecutorKind.GPU: "a GPU"}


class Recording(NamedTuple):
    """A shipped recording, described by its first lines.

    Attributes:
        at: seconds since the epoch.
        timed: recorded on a GPU.
        events: how many it holds.
    """

    path: Path
    problem: str
    proposer: str
    where: str
    at: float
    timed: bool
    events: int

    @property
    def label(self) -> str:
        return f"{self.problem} · {self.proposer} · recorded on {self.where}"


# ---- importing


def render_import(store: Store) -> None:
    """Draw the fields for a path and for an uploaded file."""
    if access.looks_on():
        return
    render_file_choice(
        "import", store, _open, label="Path of a recording or results",
        example="/path/to/run.jsonl.gz, node.json or a folder of results", button="Import", endings=UPLOADS,
        most_mb=200,
        hint="Recordings (.jsonl, .jsonl.gz), published CuTeGen nodes (.json), KernelBench run folders. Nothing runs.",
    )  # fmt: skip


def _imported(store: Store, path: Path) -> Imported:
    # Imported late: the readers are needed only for this click.
    from cutegen_core.share.imports import import_path

    return import_path(store, path)


def _open(store: Store, path: Path) -> None:
    imported = _imported(store, path)
    ui_state.say(f"Imported {counted(imported.steps, 'step')}. {imported.note}", "ok")
    places.go_to_session(imported.session)


# ---- recordings that ship with the workbench


def picture_of(recording: Path) -> Path:
    """Return where the picture of a recording lies, if it has one."""
    return PICTURES / f"{recording.name.partition('.')[0]}.svg"


def render_recordings(store: Store) -> None:
    """List the shipped recordings; a click imports one, only once, and opens or presents it."""
    found = _found()
    for number, recording in enumerate(found):
        _line(store, number, recording)
    _hint(found)


def render_gallery(store: Store) -> None:
    """Draw the first shipped recordings as cards with a picture each, and list the others."""
    found = _found()
    cards = [(number, one) for number, one in enumerate(found) if isinstance(one, Recording)][:CARDS]
    with st.container(key="recording-gallery"):
        for first in range(0, len(cards), ACROSS):
            row = cards[first : first + ACROSS]
            for (number, recording), column in zip(row, st.columns(ACROSS, gap="medium"), strict=False):
                with column, st.container(key=f"recording-card-{number}"):
                    _card(store, number, recording)
    for number, one in enumerate(found):
        if number not in dict(cards):
            _line(store, number, one)
    _hint(found)


def _card(store: Store, number: int, recording: Recording) -> None:
    if picture := _picture(str(picture_of(recording.path))):
        st.html(f'<img class="cg-recording" alt="{escape_html(recording.label)}" src="{picture}">')
    st.html(f'<p class="cg-recording-title">{escape_html(recording.label)}</p>')
    left, right = st.columns(2, gap="xsmall")
    _buttons(store, number, recording, left, right, "Open step by step")


def _line(store: Store, number: int, recording: Recording | str) -> None:
    if isinstance(recording, str):
        note("error", recording)
        return
    left, right = st.columns([3.6, 1], gap="xsmall")
    _buttons(store, number, recording, left, right)


def _found() -> list[Recording | str]:
    return _recordings(tuple((str(f), f.stat().st_mtime_ns) for f in sorted(RECORDINGS.glob("*.jsonl*"))))


def _buttons(
    store: Store, number: int, recording: Recording, left: DeltaGenerator, right: DeltaGenerator, words: str = ""
) -> None:
    """Draw what opens, with these words or its label, and what presents a recording."""
    label = plain_label(recording.label)
    opened = left.button(words or label, key=f"recording-{number}", width="stretch")
    shown = right.button("Present", key=f"recording-present-{number}", width="stretch", help=label)
    if opened or shown:
        session = _imported_before(store, recording) or _imported(store, recording.path).session
        st.switch_page(places.present() if shown else places.session(), query_params={"id": session})


def _hint(found: list[Recording | str]) -> None:
    if found:
        quiet("Open a finished session read-only, or present it. A recorded session can be replayed on this machine.")
    else:
        quiet("This copy ships no recordings.")


def _imported_before(store: Store, recording: Recording) -> str:
    """Return the session that this file was imported as before, "" if it was not."""
    origin = f"imported from {recording.path.name}"
    rows = (row for row in views.session_rows(store) if row.origin == origin)
    return next((row.id for row in rows if abs(row.created_at - recording.at) < 1e-3), "")


@st.cache_data(show_spinner=False)
def _recordings(files: tuple[tuple[str, int], ...]) -> list[Recording | str]:
    found = [_described(Path(name)) for name, _ in files]
    return sorted(found, key=_place)


def _place(found: Recording | str) -> tuple[bool, int]:
    """Sort recordings of a GPU first, the longest before the others."""
    return (False, -found.events) if isinstance(found, Recording) and found.timed else (True, 0)


@st.cache_data(show_spinner=False)
def _picture(path: str) -> str:
    """Return the picture as an address that holds it, "" where there is none."""
    if not Path(path).is_file():
        return ""
    return f"data:image/svg+xml;base64,{base64.b64encode(Path(path).read_bytes()).decode()}"


def _described(path: Path) -> Recording | str:
    """Describe a recording by its lines up to the first event, or say why it cannot be read."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            head = json.loads(next(lines))
            first = next(line for line in map(json.loads, lines) if "event" in line)
        settings = json.loads(older.event(json.dumps(first["event"])))["settings"]
        where = _EXECUTORS.get(settings["executor"], settings["executor"])
        where = settings["device_name"] if settings["executor"] == ExecutorKind.GPU else where
        origin = "" if settings.get("origin", "here") == "here" else f", {settings['origin']}"
        day = time.strftime("%d %b %Y", time.gmtime(first["at"]))
        on = f"{where} for {settings['arch']}{origin}, {day}"
        return Recording(path, head["problem"], settings["model"] or settings["answered_by"], on, first["at"],
                         settings["executor"] == ExecutorKind.GPU, int(head["events"]))  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, StopIteration, EOFError) as error:
        return f"{path.name} cannot be read: {error}"


# ---- a read-only session


def render_imported_bar(store: Store, view: SessionView) -> None:
    """Draw, instead of the decide bar, where the session comes from, and the button that replays it."""
    if session := ui_state.take_opening():  # before the button is drawn again, so that a second press starts no other
        places.go_to_session(session)
    settings = view.state.settings
    words, button = st.columns([5, 1.4], vertical_alignment="center")
    with words:
        note("info", f"Read-only: {settings.origin}. Replay here runs all stages again on this machine.")
    ours = bool(settings.arch) and settings.executor in _EXECUTORS
    started: list[str] = []
    with button:
        st.button(
            "Replay here", key="replay", type="primary", shortcut="G", disabled=not ours, width="stretch",
            on_click=ui_state.noted(_replay, store, view.id, started),
            help="Starts a new session with the same prompts and replies; all stages run again on this machine."
            if ours
            else "Only recordings of the workbench can be replayed: these results hold no prompts and workloads.",
        )  # fmt: skip


def _replay(store: Store, recorded: str, started: list[str]) -> None:
    """Start the new session and open it; called by a click.

    Args:
        started: holds the session once there is one, so that one drawing of the button starts only one, however often
            it is pressed, and also when the next click interrupts this.
    """
    view = views.session_view(store, recorded)
    settings = view.state.settings
    try:
        if not started:
            session = start.create(
                store, store.record(Problem, settings.problem), answered_by=AnsweredBy.RECORDING, arch=settings.arch,
                recording=recorded, max_steps=max(settings.max_steps, len(view.steps) + 1),
            )  # fmt: skip
            started.append(session)
    except UsageError as error:
        ui_state.say(str(error))
        return
    ui_state.open_next(started[0])
