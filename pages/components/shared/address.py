"""The address of the page in this tab: which step, pane and picture are shown, and how a click changes that.

1. A click changes all it has to change at once (`go`), and the page tells the browser in one message (`agree`): one
   entry in its history, one press of Back.
2. Until the browser has heard of it, its next clicks still come with the address from before. Such an address is late,
   not a wish: the browser is told again.
3. After Back, Forward, a link, or typing, the browser's address is the person's, and holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.components.shared import ui_state

_KEY = "address"


@dataclass
class _Known:
    """What the server knows of one tab's address.

    Attributes:
        page: the page it belongs to.
        now: what it is, or will be as soon as the browser has heard of it.
        late: what it was before the changes that the browser may not have heard of.
    """

    page: str = ""
    now: dict[str, str] = field(default_factory=dict)
    late: list[dict[str, str]] = field(default_factory=list)


def agree() -> None:
    """At the beginning of a page, after every change, and in what polls: the address here and the browser's agree."""
    known, run = ui_state.kept(_KEY, _Known), get_script_run_ctx()
    reported, page = st.query_params.to_dict(), run.page_script_hash if run else ""
    ui_state.tab().page = page
    navigated = run is not None and run.is_history_navigation
    if page != known.page or navigated:
        known.page, known.now, known.late = page, reported, []
    elif reported == known.now:
        if run is not None and run.fragment_ids_this_run:  # a poll changes nothing itself: the browser has heard of it
            known.late.clear()
    elif reported in known.late:
        st.query_params.from_dict(known.now)
    else:
        known.now, known.late = reported, [known.now]
        st.query_params.from_dict(reported)  # a link within a page leaves the browser's address as it was


def get(name: str) -> str:
    """The parameter as it is, or will be at once; "" where there is none."""
    return ui_state.kept(_KEY, _Known).now.get(name, "")


def go(**changes: str | None) -> None:
    """Changes these parameters; None drops one. The browser hears of it when the page agrees with it next.

    A click on a page that has been left since changes nothing.
    """
    if ui_state.is_elsewhere():
        return
    known = ui_state.kept(_KEY, _Known)
    wanted = {name: value for name, value in (known.now | changes).items() if value is not None}
    if wanted != known.now:
        known.late.append(known.now)
        known.now = wanted


def follow(key: str, name: str, drawn: str) -> None:
    """Of a choice that was drawn with the value `drawn`: the address takes the chosen one.

    A browser that only repeats what it was sent has chosen nothing.
    """
    chosen = ui_state.text(key)
    if chosen and chosen != drawn:
        go(**{name: chosen})


def drop(name: str) -> None:
    """Back to what the page shows by itself."""
    go(**{name: None})
