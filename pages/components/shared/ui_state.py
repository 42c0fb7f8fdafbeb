"""Hold a tab's ids, recent clicks and drafts of answers. Only this module touches `st.session_state`.

The truth is in the store and in the URL.

1. A click must carry what the user saw, not what is true a moment later, so a button submits a decision bound when it
   was drawn (`choose`).
2. The next click interrupts a callback at its first touch of Streamlit's state, before it has done anything. So a
   button's callback only notes an action in a plain list (`noted`), and every page first does these (`carry_out`).
3. Then `answers` submits the decisions in their order, each to the session it was made on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import streamlit as st

from cutegen_core.records.decision import UNBOUND, Autonomy, Decision
from pages.components.shared.texts import NoteKind

MakeDecision = Callable[[str], Decision]
T = TypeVar("T")

_TAB = "tab"
_REDRAW = "redraw"
_EDITING = "editing"
_OPENING = "opening"
_TURNS = "turns"
_TURN = "-turn-"  # kept_typing.js knows it too


class Click(NamedTuple):
    """The action of a click, and the page it was made on."""

    page: str
    act: Callable[[], None]


class Chosen(NamedTuple):
    """A decision to be submitted to a session, the key of the text it was made from, and the page."""

    session: str
    decision: Decision
    text_key: str
    page: str


class Submitted(NamedTuple):
    """A submitted decision that the engine has not settled, and its number in the inbox."""

    chosen: Chosen
    ticket: int


@dataclass
class Tab:
    """The clicks of one tab and their results.

    Attributes:
        page: the open page.
        clicked_on: the page of the click that is being carried out.
        clicks: actions to do, in order.
        chosen: decisions to submit, in order.
        last: the decision submitted last, unless it was refused.
        submitted: decisions that are submitted and not settled.
        notices: messages for the next drawing, each with the kind of its box.
    """

    page: str = ""
    clicked_on: str = ""
    clicks: list[Click] = field(default_factory=list)
    chosen: list[Chosen] = field(default_factory=list)
    last: Chosen | None = None
    submitted: list[Submitted] = field(default_factory=list)
    notices: list[tuple[NoteKind, str]] = field(default_factory=list)


def tab() -> Tab:
    return kept(_TAB, Tab)


def noted(act: Callable[..., None], *args: object, **kwargs: object) -> Callable[[], None]:
    """Make a callback, when drawing, that notes this action for the page to do."""
    ours = tab()
    return partial(ours.clicks.append, Click(ours.page, partial(act, *args, **kwargs)))


def carry_out() -> None:
    """Do what was clicked; every page begins with it.

    An action that the next click interrupts stays noted; one that fails is dropped and raises its error once.
    """
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
    """Tell whether another page was opened since the click that is being carried out."""
    ours = tab()
    return ours.clicked_on != ours.page


def choose(session: str, make: MakeDecision, text_key: str = "", empty: str = "") -> None:
    """Make the decision of a button from the text typed under `text_key`; say `empty` where there is none."""
    typed = text(text_key) if text_key else ""
    if text_key and not typed.strip():
        say(empty)
        return
    _choose(session, make(typed), text_key)


def choose_as_typed(session: str, make: MakeDecision, text_key: str) -> None:
    """Make the decision of a button whose field may be empty."""
    _choose(session, make(text(text_key)), text_key)


def choose_now(session: str, decision: Decision) -> None:
    """Make the decision of a callback that has the text itself."""
    _choose(session, decision, "")


def _choose(session: str, decision: Decision, text_key: str) -> None:
    """Note a decision to submit; a repeated answer to the same question, as of a double press, counts once."""
    ours = tab()
    before = ours.chosen[-1] if ours.chosen else ours.last
    again = before is not None and (before.session, before.decision) == (session, decision)
    if decision.kind in UNBOUND or not again:
        ours.chosen.append(Chosen(session, decision, text_key, ours.clicked_on))


def chosen_autonomy(session: str) -> Autonomy | None:
    """Return the autonomy that this tab has chosen for the session and the engine has not set yet."""
    chosen = (one.chosen for one in reversed(tab().submitted) if one.chosen.session == session)
    return next((one.decision.autonomy for one in chosen if one.decision.autonomy), None)


def waits_for_page() -> bool:
    """Tell whether a fragment must rerun the page, which alone submits decisions and shows messages."""
    return st.session_state.pop(_REDRAW, False) or bool(tab().chosen) or bool(tab().notices)


def redraw_page() -> None:
    """Redraw the whole page after a fragment's callback, whose effect shows elsewhere too."""
    st.session_state[_REDRAW] = True


def say(text: str, kind: NoteKind = "warning") -> None:
    """Add a message to those that the next drawing shows."""
    tab().notices.append((kind, text))


def take_notices() -> dict[NoteKind, str]:
    """Return the messages of each kind, and forget them."""
    ours = tab()
    texts: dict[NoteKind, list[str]] = {}
    for kind, text in ours.notices:
        texts.setdefault(kind, []).append(text)
    ours.notices.clear()
    return {kind: "\n".join(said) for kind, said in texts.items()}


def open_next(session: str) -> None:
    """Open this session at the next drawing; a callback."""
    st.session_state[_OPENING] = session


def take_opening() -> str:
    return str(st.session_state.pop(_OPENING, ""))


def first_time(key: str, mark: str) -> bool:
    """Tell whether this mark is new: an upload stays in its field but is used once."""
    if st.session_state.get(key) == mark:
        return False
    st.session_state[key] = mark
    return True


def text(key: str) -> str:
    """Return the text of the field with this key."""
    value = st.session_state.get(key)
    return "" if value is None else str(value)


def put(key: str, value: Any) -> None:  # noqa: ANN401 - the value of any widget
    """Set a widget's value, before it is drawn or in a callback."""
    st.session_state[key] = value


def take_text(key: str) -> str:
    """Return the text of a field and empty it: for secrets, in a callback."""
    typed = str(st.session_state.get(key) or "")
    st.session_state[key] = ""
    return typed


def field_key(name: str) -> str:
    """Return the key of a text field whose text the page replaces at times, of the field's latest turn."""
    turn = kept(_TURNS, dict[str, int]).get(name, 0)
    return f"{name}{_TURN}{turn}" if turn else name


def replace(key: str, value: str) -> None:
    """Draw a new field with this text in place of the field with this key, unless that was replaced meanwhile.

    A browser that is slow goes on sending the text it shows, which would undo a `put`; its text of an old field is
    dropped.
    """
    name = key.partition(_TURN)[0]
    if field_key(name) == key:
        put(_next_key(name), value)


def showing(name: str, value: object) -> str:
    """Return the key of the field that shows this value, which the caller gives it as its default.

    Where the value was changed elsewhere, that is a new field. Another value for the same field would replace what a
    person enters in it meanwhile; and a browser that is slow would go on telling the one before, as if it was entered.
    """
    key = field_key(name)
    return key if st.session_state.get(key, value) == value else _next_key(name)


def renew(name: str) -> None:
    """Draw a new field with this name, with the default that the page gives it."""
    _next_key(name)


def _next_key(name: str) -> str:
    turns = kept(_TURNS, dict[str, int])
    turns[name] = turns.get(name, 0) + 1
    return field_key(name)


def put_once(key: str, value: object) -> None:
    """Set the first value of a field and keep what was typed since."""
    if key not in st.session_state:
        st.session_state[key] = value


def suggest(name: str, value: str) -> str:
    """Return the key of a field for which this is suggested, and is its default, until something else is typed."""
    key = field_key(name)
    if text(key) in ("", text(f"{name}-suggested")):
        key = showing(name, value)
    put(f"{name}-suggested", value)
    return key


def keep_among(key: str, values: Sequence[str], otherwise: str) -> None:
    """Set a choice to `otherwise` when its value is no longer among the options."""
    if st.session_state.get(key) not in values:
        st.session_state[key] = otherwise


def editing(draft: str) -> bool | None:
    """Tell whether this tab has the editor of the draft open; None when it has neither opened nor closed it."""
    found: bool | None = st.session_state.get(f"{_EDITING}-{draft}")
    return found


def set_editing(draft: str, is_open: bool) -> None:
    st.session_state[f"{_EDITING}-{draft}"] = is_open


def chosen_point(key: str) -> int | None:
    """Return the x value of the point selected in a chart."""
    points = st.session_state[key].selection.points
    return int(points[0]["x"]) if points else None


def reported(key: str, name: str) -> object:
    """Return what the component with this key has sent under `name`."""
    return getattr(st.session_state.get(key), name, None)


def kept(key: str, make: Callable[[], T]) -> T:
    """Return an object of this tab, which the first call makes."""
    if key not in st.session_state:
        st.session_state[key] = make()
    found: T = st.session_state[key]
    return found


def taken(key: str) -> object:
    """Return what a callback has put under this key, and remove it."""
    return st.session_state.pop(key, None)


def held(key: str, kind: type[T]) -> T | None:
    """Return what was put under this key, if it is of this kind."""
    found = st.session_state.get(key)
    return found if isinstance(found, kind) else None


def forget(key: str) -> None:
    st.session_state.pop(key, None)
