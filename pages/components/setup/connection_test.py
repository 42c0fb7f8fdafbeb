"""Test the connection to a model server with a short question, in the background so that the page stays usable."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import streamlit as st

from cutegen_core.propose.llm import secret_keys
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.records.errors import UsageError
from pages.components.shared import ui_state
from pages.components.shared.texts import note, quiet, table

if TYPE_CHECKING:
    from cutegen_core.propose.llm.probe import ConnectionResult

POLL_S = 0.5
MODELS_SHOWN = 40


@dataclass
class _Test:
    """A running or finished test."""

    settings: ModelSettings
    begun: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)
    result: Future[ConnectionResult] = field(default_factory=Future)


@st.cache_resource(show_spinner=False)
def _tests() -> dict[str, _Test]:
    """Return the server's tests by the name of the model."""
    return {}


def render_test(settings: ModelSettings) -> None:
    """Draw the button and the result of the last test with exactly these settings."""
    test = _tests().get(settings.name)
    current = test if test and test.settings == settings else None
    waiting = current is not None and not current.result.done()
    with st.container(horizontal=True):
        st.button("Test connection", key="model-test", disabled=waiting,
                  on_click=ui_state.noted(_begin, settings))  # fmt: skip
        if current and waiting:
            st.button("Cancel", key="model-test-cancel", on_click=current.stop.set)
    if current:
        st.fragment(_outcome, run_every=POLL_S if waiting else None)(settings.name, waiting)


def _begin(settings: ModelSettings) -> None:
    test = _tests()[settings.name] = _Test(settings)
    threading.Thread(target=_run, args=(test,), name="connection test", daemon=True).start()


def _run(test: _Test) -> None:
    # Imported here: the openai package takes half a second, and the page is drawn meanwhile.
    from cutegen_core.propose.llm import probe

    try:
        key = secret_keys.find_key(test.settings.base_url, chosen=test.settings.base_url)
        test.result.set_result(probe.probe_server(test.settings, key, stopped=test.stop.is_set))
    except UsageError as error:
        test.result.set_exception(error)


def _outcome(name: str, drawn_waiting: bool) -> None:
    test = _tests()[name]
    if not test.result.done():
        quiet(f"● Contacting {test.settings.base_url} … {time.monotonic() - test.begun:.0f} s")
        return
    if drawn_waiting:
        st.rerun()
    error = test.result.exception()
    if error is not None:
        note("error", str(error))
        return
    probe = test.result.result()
    note("ok" if probe.usable else "error", probe.message)
    rows: list[tuple[object, ...]] = [
        ("reachable", _word(probe.reachable)),
        ("answers", _word(probe.usable)),
        ("streams text", _word(probe.streaming)),
        ("reports token counts", _word(probe.usage)),
        ("models", ", ".join(probe.models[:MODELS_SHOWN]) or probe.listing),
    ]
    st.html(table(("", ""), rows, numbers_from=9))


def _word(value: bool) -> str:
    return "✓ yes" if value else "✗ no"
