"""The only module that touches `st.session_state`. It holds ids, what was just clicked, and drafts of answers.

The truth is in the store and in the URL.

1. A click must carry what the person saw, not what is true a moment later: buttons hand over decisions bound at drawing
   time (`choose`).
2. The next click ends a callback at its first touch of Streamlit's state, and then it has done nothing. So a button's
   callback only notes what is to be done, in a plain list (`noted`), and every page does that first (`carry_out`).
3. Then the decisions are handed over in their order (`answers`), each to the session it was made on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import streamlit as st

from cutegen_core.records.decision import UNBOUND, Decision

MakeDecision = Callable[[str], Decision]
T = TypeVar("T")

_TAB = "tab"
_REDRAW = "redraw"
_EDITING = "editing"
_OPENING = "opening"


class Click(NamedTuple):
    """What is to be done for a click, and the page it was made on."""

    page: str
    act: Callable[[], None]


class Chosen(NamedTuple):
    """A decision on a session, to be handed over; the key of the text it was made from, and the page."""

    session: str
    decision: Decision
    text_key: str
    page: str


class Submitted(NamedTuple):
    """A decision of this tab until it is settled, and its number in the inbox."""

    chosen: Chosen
    ticket: int


@dataclass
class Tab:
    """What was clicked in one tab and what came of it.

    Attributes:
        page: the one that is open.
        clicked_on: the page of the click that is being carried out.
        clicks: what is to be done, in order.
        chosen: decisions to be handed over, in order.
        last: the one handed over last, unless it was refused.
        submitted: those that were handed over and are not settled.
        notice: a message for the next drawing.
    """

    page: str = ""
    clicked_on: str = ""
    clicks: list[Click] = field(default_factory=list)
    chosen: list[Chosen] = field(default_factory=list)
    last: Chosen | None = None
    submitted: list[Submitted] = field(default_factory=list)
    notice: str = ""


def tab() -> Tab:
    return kept(_TAB, Tab)


def noted(act: Callable[..., None], *args: object, **kwargs: object) -> Callable[[], None]:
    """At drawing: a callback that notes this for the page to do."""
    ours = tab()
    return partial(ours.clicks.append, Click(ours.page, partial(act, *args, **kwargs)))


def carry_out() -> None:
    """At the beginning of every page: does what was clicked. What the next click cuts short stays noted; what cannot be
    done is said once."""
    ours = tab()
    while ours.clicks:
        ours.clicked_on = ours.clicks[0].page
        try:
            ours.clicks[0].act()
        except Exception:
            ours.clicks.pop(0)
            raise
        ours.clicks.pop(0)
    ours.clicked_on = ours.page


def is_elsewhere() -> bool:
    """Another page was opened between the click that is being carried out and now."""
    ours = tab()
    return ours.clicked_on != ours.page


def choose(session: str, make: MakeDecision, text_key: str = "", empty: str = "") -> None:
    """Of a button: makes the decision, with the text typed under `text_key`; `empty` says what is missing."""
    typed = text(text_key) if text_key else ""
    if text_key and not typed.strip():
        say(empty)
        return
    _choose(session, make(typed), text_key)


def choose_as_typed(session: str, make: MakeDecision, text_key: str) -> None:
    """Of a button whose field may also be empty."""
    _choose(session, make(text(text_key)), text_key)


def choose_now(session: str, decision: Decision) -> None:
    """In a callback that has the text itself: the decision is made."""
    _choose(session, decision, "")


def _choose(session: str, decision: Decision, text_key: str) -> None:
    """The same answer to the same question twice, as of a button pressed twice, is one."""
    ours = tab()
    before = ours.chosen[-1] if ours.chosen else ours.last
    again = before is not None and (before.session, before.decision) == (session, decision)
    if decision.kind in UNBOUND or not again:
        ours.chosen.append(Chosen(session, decision, text_key, ours.clicked_on))


def waits_for_page() -> bool:
    """Something was decided or is to be said, and only the page itself takes it up: a fragment must rerun the page."""
    return st.session_state.pop(_REDRAW, False) or bool(tab().chosen) or bool(tab().notice)


def redraw_page() -> None:
    """In a callback of a fragment: what was done shows elsewhere on the page, too."""
    st.session_state[_REDRAW] = True


def say(text: str) -> None:
    """A message for the next drawing, after those that wait for it already."""
    ours = tab()
    ours.notice = f"{ours.notice}\n{text}" if ours.notice else text


def take_notice() -> str:
    ours = tab()
    notice, ours.notice = ours.notice, ""
    return notice


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
    value = st.session_state.get(key)
    return "" if value is None else str(value)


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


def held(key: str, kind: type[T]) -> T | None:
    """What was put there, if it is of this kind."""
    found = st.session_state.get(key)
    return found if isinstance(found, kind) else None


def forget(key: str) -> None:
    st.session_state.pop(key, None)
