"""Show the system check (`cutegen doctor`), which runs in the background so that no page waits for it."""

from __future__ import annotations

from concurrent.futures import Future

import streamlit as st

from cutegen_core.doctor import report as core
from cutegen_core.machine import background
from cutegen_core.machine.device import detect
from cutegen_core.records.errors import MachineError
from pages.components.shared import ui_state
from pages.components.shared.texts import Html, escape_html, quiet, show_hidden, table

TITLE = "System check"
_SHAPES = {core.CheckState.OK: "✓", core.CheckState.WARNING: "▲", core.CheckState.MISSING: "✗"}
_KINDS = {core.CheckState.OK: "ok", core.CheckState.WARNING: "warning", core.CheckState.MISSING: "error"}
POLL_S = 0.5
_MEASURED = "doctor-measured"


def render_doctor(*, only_what_matters: bool = False) -> None:
    """Draw a table of the findings, each gap with the command that fixes it.

    Args:
        only_what_matters: leave out what is fine and needs no attention.
    """
    waiting = not _findings().done()
    st.fragment(_table, run_every=POLL_S if waiting else None)(only_what_matters, waiting)


def render_measuring() -> None:
    """Draw, on a machine with a GPU, a button that measures its peaks and tests the profiler, and the result."""
    if detect() is None:
        return
    hint = "Needed for roofline bounds and to flag times too fast to be true. Uses the whole GPU for about 15 s."
    if st.button("Measure this GPU's peaks", key="doctor-measure", help=hint):
        with st.status("Measuring …", expanded=True):
            try:
                said = f"Measured. {core.measure(st.text)}"
            except MachineError as error:
                said = f"Not measured: {error}"
            look_again()
            ui_state.put(_MEASURED, said)
        st.rerun()  # the table above still shows the earlier findings
    if ui_state.text(_MEASURED):
        st.text(show_hidden(ui_state.text(_MEASURED)))


def look_again() -> None:
    """Forget the findings, so that the next drawing checks again; a callback."""
    ui_state.forget(_MEASURED)
    _findings.clear()


@st.cache_resource(show_spinner=False)
def _findings() -> Future[tuple[core.SystemCheck, ...]]:
    return background.begin("doctor", core.run_checks)


def _table(only_what_matters: bool, drawn_waiting: bool) -> None:
    findings = _findings()
    if not findings.done():
        quiet("● Checking this machine …")
        return
    if drawn_waiting:
        st.rerun()
    shown = [
        c for c in findings.result() if not only_what_matters or c.state is not core.CheckState.OK or c.name in _TOLD
    ]
    rows: list[tuple[object, ...]] = [(_state(c), _name(c), Html(_detail(c))) for c in shown]
    st.html(table(("", "", "result"), rows, numbers_from=9))


_TOLD = ("Compilers and headers", "Emulator's compiler", "GPU", "GPU now", "Measured peaks", "Sandbox")


def _state(check: core.SystemCheck) -> Html:
    return Html(
        f'<span class="cg-state cg-{_KINDS[check.state]}">{_SHAPES[check.state]} {escape_html(check.state)}</span>'
    )


def _name(check: core.SystemCheck) -> Html:
    return Html(f'<span class="cg-whole-words">{escape_html(check.name)}</span>')


def _detail(check: core.SystemCheck) -> str:
    fix = f'<div class="cg-fix">fix: <code>{escape_html(check.fix)}</code></div>' if check.fix else ""
    return f"{escape_html(check.detail)}{fix}"
