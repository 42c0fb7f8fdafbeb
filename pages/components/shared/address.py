"""Keep the address of this tab's page: which step, pane and picture are shown, and how a click changes that.

1. A click changes everything at once (`go`), and the page tells the browser in one message (`agree`): one entry in its
   history, one press of Back.
2. Until the browser has received it, its next clicks still carry the earlier address. Such an address is late and not
   wanted: the page tells the browser again.
3. After Back, Forward, a link or typing, the browser's address is the user's choice and holds.
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
        now: the address, as it is or as soon as the browser has received it.
        late: earlier addresses, which a browser that has not received the change may still send.
    """

    page: str = ""
    now: dict[str, str] = field(default_factory=dict)
    late: list[dict[str, str]] = field(default_factory=list)


def agree() -> None:
    """Make this address and the browser's agree; call it when a page begins, after every change, and in polls."""
    known, run = ui_state.kept(_KEY, _Known), get_script_run_ctx()
    reported, page = st.query_params.to_dict(), run.page_script_hash if run else ""
    ui_state.tab().page = page
    navigated = run is not None and run.is_history_navigation
    if page != known.page or navigated:
        known.page, known.now, known.late = page, reported, []
    elif reported == known.now:
        if run is not None and run.fragment_ids_this_run:  # a poll changes nothing: the browser has received it
            known.late.clear()
    elif reported in known.late:
        st.query_params.from_dict(known.now)
    else:
        known.now, known.late = reported, [known.now]
        st.query_params.from_dict(reported)  # a link within a page does not change the browser's address


def get(name: str) -> str:
    """Return a parameter of the address; "" where there is none."""
    return ui_state.kept(_KEY, _Known).now.get(name, "")


def go(**changes: str | None) -> None:
    """Change these parameters; None drops one. The next `agree` tells the browser.

    A click on a page that was left since changes nothing.
    """
    if ui_state.is_elsewhere():
        return
    known = ui_state.kept(_KEY, _Known)
    wanted = {name: value for name, value in (known.now | changes).items() if value is not None}
    if wanted != known.now:
        known.late.append(known.now)
        known.now = wanted


def follow(key: str, name: str, drawn: str) -> None:
    """Put the chosen value of a widget, drawn with the value `drawn`, into the address.

    A browser that only repeats the drawn value has chosen nothing.
    """
    chosen = ui_state.text(key)
    if chosen and chosen != drawn:
        go(**{name: chosen})


def drop(name: str) -> None:
    """Drop a parameter, so that the page shows its default."""
    go(**{name: None})
