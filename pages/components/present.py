"""Showing a session: the slide, the keys and stops below it, and the watch that goes on by itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import streamlit as st

from cutegen_core import presentation, views
from cutegen_core.presentation import RESULT, Deck, Pane, Stop
from cutegen_core.store import Store
from cutegen_core.views import SessionRow, SessionView
from pages.components import places, ui_state
from pages.components.texts import escaped, lowered, plain_label, when

PANES: tuple[Pane, ...] = get_args(Pane)
INTERVALS_S = (3, 5, 8, 12, 20)
TICK_S = 0.5
RESTING_TICK_S = 2.0
STOPS_SHOWN = 13
"""So many stops have their word beside their shape; of more, those around the shown one are offered."""
_PLAYING, _INTERVAL, _STOP = "present-playing", "present-interval", "present-stop"


def render_choice(rows: Sequence[SessionRow]) -> None:
    """The sessions there are, newest first."""
    for row in rows:
        best = f"best: {row.best_idea}" if row.best_idea else "no kernel yet"
        facts = f"{lowered(row.status)} · {row.proposer} · {row.steps} steps · {best} · {when(row.updated_at)}"
        st.page_link(places.present(), label=f"**{plain_label(row.problem)}** {plain_label(f'· {facts}')}",
                     query_params={"id": row.id}, width="stretch")  # fmt: skip


def render_slide(store: Store, deck: Deck, stop: Stop, pane: Pane) -> None:
    """One stop, in the size of the window."""
    st.html(Path(__file__).with_name("present.css"))
    st.html(f"<style>{presentation.STYLE}</style>")
    drawn = presentation.draw(presentation.slide(store, deck, stop), pane=pane, pictures="image")
    st.html(f'<div class="pr pr-page" data-pane="{pane}">{drawn}</div>')


# ---- below the slide


def render_controls(deck: Deck, at: int, pane: Pane) -> None:
    """A button for every key, the stops, and the way back."""
    with st.bottom:
        keys, stops, panes, rest = st.columns([5.3, 7.6, 3.1, 2.1], vertical_alignment="center", gap="small")
        with keys, st.container(horizontal=True, gap="xsmall"):
            _buttons(deck, at)
        with stops:
            _stops(deck, at)
        with panes, st.container(horizontal=True, gap="xsmall"):
            for number, name in enumerate(PANES, 1):
                st.button(name, key=f"present-pane-{name}", shortcut=str(number), on_click=_show, args=(name,),
                          type="primary" if name == pane else "secondary")  # fmt: skip
        with rest, st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.selectbox("Seconds a slide", INTERVALS_S, index=2, key=_INTERVAL, format_func=lambda s: f"{s} s",
                         label_visibility="collapsed", width=78, help="How long one stays")  # fmt: skip
            number = {"step": str(deck.stops[at].number)} if deck.stops[at].number else {}
            st.page_link(places.session(), label="Leave", query_params={"id": deck.view.id, **number})


def _buttons(deck: Deck, at: int) -> None:
    last = len(deck.stops) - 1
    playing = is_playing()
    for key, label, shortcut, to in (
        ("first", "First", "Home", 0), ("back", "Back", "ArrowLeft", max(0, at - 1)),
        ("next", "Next", "ArrowRight", min(last, at + 1)), ("last", "Last", "End", last),
    ):  # fmt: skip
        if key == "next":
            st.button("Pause" if playing else "Play", key="present-play", shortcut="Space", on_click=_play,
                      args=(deck, at))  # fmt: skip
        st.button(label, key=f"present-{key}", shortcut=shortcut, on_click=_go, args=(deck, to),
                  disabled=to == at)  # fmt: skip


def _stops(deck: Deck, at: int) -> None:
    """The stops as dots: shape and number, and the word of the verdict where there is room."""
    first = max(0, min(at - STOPS_SHOWN // 2, len(deck.stops) - STOPS_SHOWN))
    offered = deck.stops[first : first + STOPS_SHOWN]
    labels = {stop.name: plain_label(_label(stop, stop is deck.stops[at])) for stop in offered}
    ui_state.put(_STOP, deck.stops[at].name)
    st.segmented_control("Stops", list(labels), key=_STOP, format_func=labels.__getitem__, required=True,
                         label_visibility="collapsed", on_change=_chosen, args=(deck,))  # fmt: skip


def _label(stop: Stop, shown: bool) -> str:
    name = str(stop.number) if stop.number else stop.title
    word = f" {stop.word}" if stop.number and (shown or stop.kind != "passed") else ""
    return f"{stop.mark} {name}{word}{' ★' if stop.is_best else ''}"


# ---- going on


def stop_of(deck: Deck, wanted: str) -> int | None:
    """Index of the stop an address names: of a session that goes on its newest step when none is named, else the
    beginning. None where there is no such stop."""
    return deck.find(wanted) if wanted else deck.newest if deck.goes_on else 0


def is_playing() -> bool:
    return bool(ui_state.text(_PLAYING))


def render_watch(store: Store, deck: Deck, at: int) -> None:
    """What goes on by itself: the next slide while it plays, the next step of a session that is not over."""
    resting = deck.view.state.settings.imported or not deck.goes_on
    if resting and not is_playing():
        return
    due = time.time() + int(ui_state.text(_INTERVAL) or INTERVALS_S[2]) if is_playing() else None
    watch = st.fragment(_watch, run_every=TICK_S)
    watch(store, deck, at, _drawn(deck.view), due)


def _watch(store: Store, deck: Deck, at: int, drawn: tuple[int, ...], due: float | None) -> None:
    view = views.session_view(store, deck.view.id)
    if _drawn(view) != drawn:
        if _follows() and not presentation.deck(view).goes_on:
            st.query_params["step"] = RESULT
        st.rerun()
    if due is not None and time.time() >= due:
        if at + 1 < len(deck.stops):
            _to(deck, at + 1)
        else:
            ui_state.put(_PLAYING, "")
        st.rerun()
    stage = view.state.running_stage
    running = f"{lowered(stage)} {max(0.0, time.time() - view.state.running_since):.0f} s" if stage else ""
    told = ", ".join(filter(None, (lowered(view.state.status), running, "follows" if _follows() else "")))
    st.html(f'<div class="pr-live" role="status">● {escaped(told)}</div>' if deck.goes_on else "")


def _drawn(view: SessionView) -> tuple[int, ...]:
    """Changes with everything the slides show."""
    return view.state.meaning_seq, len(view.state.profiles), sum(step.tried is not None for step in view.state.steps)


def _follows() -> bool:
    """Nobody has stepped anywhere: the newest step is shown as it comes."""
    return "step" not in st.query_params


def _to(deck: Deck, index: int) -> None:
    if deck.goes_on and index == deck.newest:
        st.query_params.pop("step", None)
    else:
        st.query_params["step"] = deck.stops[index].name


def _go(deck: Deck, index: int) -> None:
    """Callback: whoever steps by hand takes over."""
    ui_state.put(_PLAYING, "")
    _to(deck, index)


def _chosen(deck: Deck) -> None:
    index = deck.find(ui_state.text(_STOP))
    if index is not None:
        _go(deck, index)


def _play(deck: Deck, at: int) -> None:
    """Callback: starts or pauses; from the last stop it begins anew."""
    ui_state.put(_PLAYING, "" if is_playing() else "playing")
    if is_playing() and at + 1 == len(deck.stops):
        _to(deck, 0)


def _show(pane: Pane) -> None:
    st.query_params["pane"] = pane
