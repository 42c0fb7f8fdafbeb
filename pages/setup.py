"""Set up the workbench: language models, the system check, the engine and its log, versions."""

from __future__ import annotations

from importlib.metadata import version

import streamlit as st

from cutegen_core import __version__, views
from cutegen_core.machine import device, workspace
from pages.components.access import access, login
from pages.components.setup import doctor, models
from pages.components.shared import data
from pages.components.shared.texts import heading, note, quiet, show_hidden, table

LOG_CHARACTERS = 20_000
POLL_S = 2.0


@st.fragment(run_every=POLL_S)
def render_engine() -> None:
    """Show whether the engine runs and what it is doing. It restarts by itself."""
    # Imported late: the engine knows every adapter, and the page is drawn before they are loaded.
    from cutegen_core import engine

    line = views.engine_line(data.store())
    if engine.is_running():
        note("ok", f"The engine is running: {line}" if line else "The engine is running.")
    else:
        note("warning", "The engine is not running. It restarts within seconds; its log says why it stopped.")


def engine_log() -> str:
    path = workspace.home() / "engine.log"
    return path.read_text(errors="replace")[-LOG_CHARACTERS:] if path.exists() else ""


left, right = st.columns([3, 2], gap="medium")
with left:
    heading("Language models")
    if not access.looks_on():
        models.render_models()
    heading(doctor.TITLE)
    doctor.render_doctor()
    st.button("Check again", key="doctor-again", on_click=doctor.look_again)
    if access.role() is access.AccessRole.OWNER:
        doctor.render_measuring()
with right:
    heading("Engine")
    render_engine()
    if st.toggle("Log", key="engine-log"):
        st.code(show_hidden(engine_log()) or "(empty)", language=None, wrap_lines=True, height=300)
    heading("Compile target")
    target = device.choose_device()
    whose = "this machine's GPU" if target.present else "no GPU found: published limits"
    quiet(f"{target.arch} ({target.name}), {whose}")
    limits = f"{target.smem_max // 1024} KB shared memory per block, {target.regs_per_sm} registers per SM"
    quiet(f"{target.sm_count} SMs, {limits}")
    quiet(f"Each session chooses its target when it starts. Known targets: {', '.join(device.KNOWN)}")
    heading("Versions")
    names = ("streamlit", "plotly", "pygments", "torch", "numpy")
    rows: list[tuple[object, ...]] = [("cutegen", __version__), *((name, version(name)) for name in names)]
    st.html(table(("package", "version"), rows))
    quiet(f"Workspace: {workspace.home()}")
login.render_way_out()
