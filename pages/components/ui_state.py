"""The only module that touches `st.session_state`. It holds ids, what was just clicked, and drafts of answers.

The truth is in the store and in the URL. A click must carry what the person saw, not what is true a moment later, so
the buttons hand over decisions bound at drawing time (`choose`) and the page takes them up first (`take_decision`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import streamlit as st

from cutegen_core.decision import Decision

MakeDecision = Callable[[str], Decision]
T = TypeVar("T")

_CHOSEN = "chosen"
_NOTICE = "notice"
_REDRAW = "redraw"
_EDITING = "editing"
_SUBMITTED = "submitted"
_OPENING = "opening"


def choose(make: MakeDecision, text_key: str = "", empty: str = "") -> None:
    """Callback of a button: makes the decision, with the text typed under `text_key`; `empty` says what is missing."""
    text = str(st.session_state.get(text_key) or "") if text_key else ""
    if text_key and not text.strip():
        st.session_state[_NOTICE] = empty
        return
    st.session_state[_CHOSEN] = make(text), text_key


def choose_as_typed(make: MakeDecision, text_key: str) -> None:
    """Callback of a button whose field may also be empty."""
    st.session_state[_CHOSEN] = make(str(st.session_state.get(text_key) or "")), text_key


def choose_now(decision: Decision) -> None:
    """In a callback that has the text itself: the decision is made."""
    st.session_state[_CHOSEN] = decision, ""


def waits_for_page() -> bool:
    """Something was decided or is to be said, and only the page itself takes it up: a fragment must rerun the page."""
    return st.session_state.pop(_REDRAW, False) or _CHOSEN in st.session_state or _NOTICE in st.session_state


def redraw_page() -> None:
    """In a callback of a fragment: what was done shows elsewhere on the page, too."""
    st.session_state[_REDRAW] = True


def take_decision() -> tuple[Decision, str] | None:
    """What was just clicked, once, with the key of the text it was made from."""
    chosen: tuple[Decision, str] | None = st.session_state.pop(_CHOSEN, None)
    return chosen


class Submitted(NamedTuple):
    """This tab's last decision until it is settled: its number in the inbox, and the source of an edit."""

    ticket: int
    source: str


def remember(submitted: Submitted | None) -> None:
    st.session_state[_SUBMITTED] = submitted


def submitted() -> Submitted | None:
    last: Submitted | None = st.session_state.get(_SUBMITTED)
    return last


def say(text: str) -> None:
    """A message for the next drawing."""
    st.session_state[_NOTICE] = text


def take_notice() -> str:
    return str(st.session_state.pop(_NOTICE, ""))


def open_next(session: str) -> None:
    """Callback: the page goes to this session."""
    st.session_state[_OPENING] = session


def take_opening() -> str:
    return str(st.session_state.pop(_OPENING, ""))


def first_time(key: str, mark: str) -> bool:
    """True once for every new mark: an upload stays in its field, and is taken up once."""
    if st.session_state.get(key) == mark:
        return False
    st.session_state[key] = mark
    return True


def text(key: str) -> str:
    """What is typed in the field with this key."""
    return str(st.session_state.get(key) or "")


def put(key: str, value: Any) -> None:  # noqa: ANN401 - the value of any widget
    """Sets a widget's value before it is drawn (or in a callback)."""
    st.session_state[key] = value


def take_text(key: str) -> str:
    """What is typed in the field, which is then empty: for secrets, in a callback."""
    typed = str(st.session_state.get(key) or "")
    st.session_state[key] = ""
    return typed


def put_once(key: str, value: object) -> None:
    """The first value of a field; what was typed since is kept."""
    if key not in st.session_state:
        st.session_state[key] = value


def keep_among(key: str, values: Sequence[str], otherwise: str) -> None:
    """A choice whose options change: what is no longer among them becomes `otherwise`."""
    if st.session_state.get(key) not in values:
        st.session_state[key] = otherwise


def editing(session: str) -> bool | None:
    """Whether the editor is open; None when this tab has not said."""
    state: tuple[str, bool] = st.session_state.get(_EDITING, ("", False))
    return state[1] if state[0] == session else None


def set_editing(session: str, is_open: bool) -> None:
    st.session_state[_EDITING] = session, is_open


def chosen_point(key: str) -> int | None:
    """The x value of the point selected in a chart."""
    points = st.session_state[key].selection.points
    return int(points[0]["x"]) if points else None


def reported(key: str, name: str) -> object:
    """What the component with this key has sent under `name`."""
    return getattr(st.session_state.get(key), name, None)


def kept(key: str, make: Callable[[], T]) -> T:
    """An object of this tab, made at the first call."""
    if key not in st.session_state:
        st.session_state[key] = make()
    found: T = st.session_state[key]
    return found


def taken(key: str) -> object:
    """What a callback has put there, once."""
    return st.session_state.pop(key, None)


def forget(key: str) -> None:
    st.session_state.pop(key, None)
