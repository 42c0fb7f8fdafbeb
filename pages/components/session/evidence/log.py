"""The log pane: messages about the lines of the kernel file; the compiler's unedited text on request."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.evidence import Topic
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.sections import rows_table
from pages.components.shared.texts import note, quiet, show_hidden

RAW_LOG_CHARACTERS = 200_000


def render_log(given: PaneInput) -> None:
    """Draw the verdict's message, the diagnostics and, on request, the raw log."""
    trial = given.trial
    if trial.message:
        note("error", trial.message)
    found = given.evidence.sections(Topic.DIAGNOSTICS)
    for section in found:
        st.html(rows_table(section))
    if not found:
        quiet("The compiler reports nothing about this kernel.")
    if not trial.log:
        quiet("There is no raw log: nothing was compiled, or the result came from the cache.")
    elif st.toggle(f"Raw log, {len(trial.log.splitlines())} lines", key="raw-log"):
        st.code(show_hidden(trial.log[:RAW_LOG_CHARACTERS]), language=None, wrap_lines=True)
