"""Choose the two sides of a comparison, each any step of any session: on the page, by key, or by the address."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.records.wording import lowered, micros
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views import StepRow, StepView
from pages.components.shared import address, places, ui_state
from pages.components.shared.texts import note, quiet, show_hidden

_UNTESTED = "not tested"
BEST = "best"
"""Names the session's best kernel in the address, instead of a step's number."""


class Side(NamedTuple):
    """One of the two sides."""

    name: str
    session: str
    step: StepView
    numbers: tuple[int, ...]

    @property
    def number(self) -> int:
        return self.step.step.number

    @property
    def label(self) -> str:
        return f"{self.name.upper()} · step {self.number}"

    @property
    def address(self) -> str:
        """The side as the address names it."""
        return f"{self.session}.{self.number}"


def choose(store: Store, name: str, fallback_step: int) -> Side | None:
    """Draw the pickers of one side and return it; None where its session has no kernel yet."""
    rows = {row.id: row for row in views.session_rows(store)}
    wanted, _, number = address.get(name).partition(".")
    if wanted not in rows:
        say_missing(name, " Choose another one.")
    drawn = wanted if wanted in rows else next(iter(rows))
    key = ui_state.showing(f"compare-session-{name}", drawn)
    left, right = st.columns([1, 1.5])
    with left:
        st.selectbox(
            f"{name.upper()}: session", list(rows), list(rows).index(drawn), key=key, label_visibility="collapsed",
            on_change=ui_state.noted(address.follow, key, name, drawn),
            format_func=lambda i: show_hidden(f"{rows[i].problem} · {rows[i].proposer} · {i}"),
        )  # fmt: skip
    with right:
        return _step(store, name, drawn, number, fallback_step)


def say_missing(name: str, way_on: str = "") -> None:
    """Say that there is no session such as the address names for a side, if it names one."""
    wanted = address.get(name).partition(".")[0]
    if wanted:
        note("error", f"There is no session “{wanted}”.{way_on}")


def _step(store: Store, name: str, session: str, wanted: str, fallback: int) -> Side | None:
    view = views.session_view(store, session)
    steps = {str(row.number): row for row in view.steps if row.candidate}
    if not steps:
        quiet("This session has no kernel to compare.")
        return None
    best = view.state.best_step
    number = str(best.number) if wanted == BEST and best else wanted
    offered = [number for number, row in steps.items() if row.status] or list(steps)
    shown = number if number in steps else offered[max(-len(offered), fallback)]
    if number and number != shown:
        note("error", f"Session {session} has no kernel in step “{wanted}”; step {shown} is shown instead.")
    offers, drawn = [f"{session}.{n}" for n in reversed(steps)], f"{session}.{shown}"
    key = ui_state.showing(f"compare-step-{name}", drawn)
    st.selectbox(
        f"{name.upper()}: step", offers, offers.index(drawn), key=key, label_visibility="collapsed",
        on_change=ui_state.noted(address.follow, key, name, drawn),
        format_func=lambda place: show_hidden(f"{name.upper()} · {_words(steps[place.partition('.')[2]])}"),
    )  # fmt: skip
    return Side(name, session, views.step_view(store, session, int(shown)), tuple(map(int, steps)))


def _words(row: StepRow) -> str:
    took = f" · {micros(1000 * row.latency_ms)}" if row.latency_ms is not None else ""
    status, star = lowered(row.status or _UNTESTED), " ★" if row.is_best else ""
    return f"{row.number}: {row.idea} · {status}{took}{star}"


def render_keys(store: Store, a: Side, b: Side) -> None:
    """Draw the buttons that choose the sides: each moves through the kernels of its session, A also to what B is
    usually compared with."""
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key="compare-keys"):
        st.button("Swap A and B", key="compare-swap", shortcut="S",
                  on_click=ui_state.noted(address.go, a=b.address, b=a.address))  # fmt: skip
        _walk(a, "Shift+")
        _walk(b, "")
        for label, shortcut, step in _usual(store, b):
            key = f"compare-{label.rpartition(' ')[2]}"
            to = f"{b.session}.{step.number}" if step and step.candidate and step.number != b.number else ""
            st.button(label, key=key, shortcut=shortcut, disabled=not to or to == a.address,
                      on_click=ui_state.noted(address.go, a=to))  # fmt: skip
        for side in (a, b):
            st.page_link(
                places.session(), label=f"Open {side.label}",
                query_params={"id": side.session, "step": str(side.number)},
            )  # fmt: skip


def _walk(side: Side, modifier: str) -> None:
    """Draw the buttons to the older and the newer kernel of one side."""
    at = side.numbers.index(side.number)
    to = {"older": side.numbers[max(0, at - 1)], "newer": side.numbers[min(at + 1, len(side.numbers) - 1)]}
    for word, number in to.items():
        name = "compare" if side.name == "b" else "compare-a"
        st.button(
            f"{side.name.upper()} {word}", key=f"{name}-{word}", shortcut=f"{modifier}{word[0].upper()}",
            disabled=number == side.number,
            on_click=ui_state.noted(address.go, **{side.name: f"{side.session}.{number}"}),
        )  # fmt: skip


def _usual(store: Store, b: Side) -> tuple[tuple[str, str, Step | None], ...]:
    """Return label, key and step of what B is usually compared with."""
    state = views.session_view(store, b.session).state
    parent = b.step.step.parent
    return ("B vs best", "V", state.best_step), ("B vs parent", "Shift+V", state.step_of(parent) if parent else None)


def verdict(side: Side) -> str:
    """Describe one side in a line."""
    trial, step = side.step.trial, side.step.step
    author = f" by {step.author}" if step.author else ""
    status = lowered(trial.status) if trial else _UNTESTED
    message = f": {trial.message}" if trial and trial.message else ""
    return f"{side.label}: {step.idea}{author} · {status}{message}"
