"""Present a session: the slide, the buttons and stops below it, and the watch that plays or follows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import streamlit as st

from cutegen_core import views
from cutegen_core.records.wording import lowered
from cutegen_core.share import slides
from cutegen_core.share.slides import Deck, SlidePane, Stop
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionRow, SessionView
from pages.components.shared import address, places, ui_state
from pages.components.shared.texts import escape_html, plain_label
from pages.components.start.session_list import facts

PANES: tuple[SlidePane, ...] = get_args(SlidePane)
INTERVALS_S = (3, 5, 8, 12, 20)
USUAL_INTERVAL_S = 8
TICK_S = 0.5
STOPS_SHOWN = 13
"""With more stops, only those around the shown one have a button."""
_PLAYING, _FOLLOWED = "present-playing", "present-followed"


def render_choice(rows: Sequence[SessionRow]) -> None:
    """Draw a button per session, newest first."""
    _style()
    for row in rows:
        st.button(f"**{plain_label(row.problem)}** {plain_label(facts(row))}", key=f"present-session-{row.id}",
                  type="tertiary", width="stretch", on_click=ui_state.noted(address.go, id=row.id))  # fmt: skip


def _style() -> None:
    st.html(Path(__file__).with_name("present.css"))


def render_slide(store: Store, deck: Deck, stop: Stop, pane: SlidePane) -> None:
    """Draw one stop at the size of the window."""
    _style()
    st.html(f"<style>{slides.STYLE}</style>")
    drawn = slides.draw(slides.slide(store, deck, stop), pane=pane, pictures="image")
    st.html(f'<div class="pr pr-page" data-pane="{pane}">{drawn}</div>')


# ---- where in the session


def stop_of(deck: Deck, wanted: str) -> int | None:
    """Return the index of the stop that an address names, None where there is no such stop.

    Without a name it is the newest step of a running session, the result once a followed session has ended, and the
    beginning of any other.
    """
    if wanted:
        return deck.find(wanted)
    if deck.goes_on:
        return deck.newest
    return len(deck.stops) - 1 if ui_state.text(_FOLLOWED) == deck.view.id else 0


def _follows() -> bool:
    """Tell whether the page follows the session: the address names no step, so the newest one is shown."""
    return not address.get("step")


def _to(deck: Deck, index: int) -> None:
    address.go(step=None if deck.goes_on and index == deck.newest else deck.stops[index].name)


def _go(deck: Deck, index: int) -> None:
    """Open a stop by hand, which ends playing."""
    ui_state.put(_PLAYING, "")
    _to(deck, index)


def _move(deck: Deck, by: int) -> None:
    """Move by so many stops from the present address, so that the second of two quick presses adds to the first."""
    at = stop_of(deck, address.get("step")) or 0
    _go(deck, max(0, min(len(deck.stops) - 1, at + by)))


# ---- below the slide


def render_controls(deck: Deck, at: int, pane: SlidePane) -> None:
    """Draw a button for every shortcut, the stops, and the link back to the session."""
    with st.bottom:
        keys, stops, panes, rest = st.columns([5.3, 7.6, 3.1, 2.1], vertical_alignment="center", gap="small")
        with keys, st.container(horizontal=True, gap="xsmall"):
            _buttons(deck, at)
        with stops:
            _stops(deck, at)
        with panes, st.container(horizontal=True, gap="xsmall"):
            for number, name in enumerate(PANES, 1):
                st.button(name, key=f"present-pane-{name}", shortcut=str(number),
                          on_click=ui_state.noted(address.go, pane=name),
                          type="primary" if name == pane else "secondary")  # fmt: skip
        with rest, st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            _interval()
            number = {"step": str(deck.stops[at].number)} if deck.stops[at].number else {}
            st.page_link(places.session(), label="Exit", query_params={"id": deck.view.id, **number})


def _buttons(deck: Deck, at: int) -> None:
    all_of_them = len(deck.stops)
    at_first, at_last = at == 0, at == all_of_them - 1
    _step_button(deck, "First", "Home", -all_of_them, at_first)
    _step_button(deck, "Back", "ArrowLeft", -1, at_first)
    label = "Pause" if _is_playing() else "Play"
    st.button(label, key="present-play", shortcut="Space", on_click=ui_state.noted(_play, deck, at))
    _step_button(deck, "Next", "ArrowRight", 1, at_last)
    _step_button(deck, "Last", "End", all_of_them, at_last)
    with st.container(key="present-clicker"):  # not drawn: a presenter's remote control sends these keys
        _step_button(deck, "Page up", "PageUp", -1, at_first)
        _step_button(deck, "Page down", "PageDown", 1, at_last)


def _step_button(deck: Deck, label: str, shortcut: str, by: int, is_there: bool) -> None:
    st.button(label, key=f"present-{label.lower()}", shortcut=shortcut, disabled=is_there,
              on_click=ui_state.noted(_move, deck, by))  # fmt: skip


def _stops(deck: Deck, at: int) -> None:
    """Draw a shape and a number for every stop, with the verdict for the shown one and for those that failed."""
    first = max(0, min(at - STOPS_SHOWN // 2, len(deck.stops) - STOPS_SHOWN))
    offered = deck.stops[first : first + STOPS_SHOWN]
    labels = {stop.name: plain_label(_label(stop, is_shown=stop is deck.stops[at])) for stop in offered}
    drawn = deck.stops[at].name
    key = ui_state.showing("present-stop", drawn)
    st.segmented_control("Stops", list(labels), default=drawn, key=key, format_func=labels.__getitem__, required=True,
                         label_visibility="collapsed", on_change=ui_state.noted(_chosen, deck, at, key))  # fmt: skip


def _label(stop: Stop, *, is_shown: bool) -> str:
    name = str(stop.number) if stop.number else stop.title
    word = f" {stop.word}" if stop.number and (is_shown or stop.kind != "passed") else ""
    return f"{stop.mark} {name}{word}{' ★' if stop.is_best else ''}"


def _chosen(deck: Deck, drawn: int, key: str) -> None:
    """Open the chosen stop; a browser that only repeats the drawn value has chosen nothing."""
    index = deck.find(ui_state.text(key))
    if index is not None and index != drawn:
        _go(deck, index)


# ---- playing and following


def _is_playing() -> bool:
    return bool(ui_state.text(_PLAYING))


def _play(deck: Deck, at: int) -> None:
    """Start or pause playing; from the last stop, start at the first."""
    ui_state.put(_PLAYING, "" if _is_playing() else "playing")
    if _is_playing() and at + 1 == len(deck.stops):
        _to(deck, 0)


def _interval() -> None:
    drawn, offered = str(_interval_s()), [str(s) for s in INTERVALS_S]
    key = ui_state.showing("present-every", drawn)
    st.selectbox(
        "Seconds per slide", offered, offered.index(drawn), key=key, format_func="{} s".format, width=78,
        label_visibility="collapsed", on_change=ui_state.noted(address.follow, key, "every", drawn),
    )  # fmt: skip


def _interval_s() -> int:
    """Return how long a slide stays while playing, from the address."""
    wanted = address.get("every")
    return next((seconds for seconds in INTERVALS_S if str(seconds) == wanted), USUAL_INTERVAL_S)


def render_watch(store: Store, deck: Deck, at: int) -> None:
    """Show the next slide while playing, and the next step of a running session, without a click."""
    if deck.goes_on and _follows():
        ui_state.put(_FOLLOWED, deck.view.id)
    if not deck.goes_on and not _is_playing():
        return
    due = time.time() + _interval_s() if _is_playing() else None
    watch = st.fragment(_watch, run_every=TICK_S)
    watch(store, deck, at, due)


def _watch(store: Store, deck: Deck, at: int, due: float | None) -> None:
    address.agree()
    view = views.session_view(store, deck.view.id)
    if _drawn(view) != _drawn(deck.view):
        st.rerun()
    if due is not None and time.time() >= due:
        if at + 1 < len(deck.stops):
            _to(deck, at + 1)
        else:
            ui_state.put(_PLAYING, "")
        st.rerun()
    if deck.goes_on:
        st.html(f'<div class="pr-live" role="status">{escape_html(_live(view))}</div>')


def _drawn(view: SessionView) -> tuple[int, ...]:
    """Return a value that changes with everything that the slides show."""
    return view.state.meaning_seq, len(view.state.studies), sum(step.tried is not None for step in view.state.steps)


def _live(view: SessionView) -> str:
    state = view.state
    stage = f", {lowered(state.running_stage)} {time.time() - state.running_since:.0f} s" if state.running_stage else ""
    return f"● {lowered(state.status)}{stage}{', following' if _follows() else ', not following'}"
