"""Let a person choose a file to open: a path on this machine, or an upload."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from cutegen_core.records.errors import CutegenError, UsageError
from cutegen_core.trajectory.store import Store
from pages.components.shared import ui_state
from pages.components.shared.texts import note, quiet

NO_PATH = "Type the path of a file or folder on this machine into the field first."


def render_file_choice(
    key: str, store: Store, take: Callable[[Store, Path], None], *, label: str, example: str, button: str,
    endings: Sequence[str], most_mb: int, hint: str,
) -> None:  # fmt: skip
    """Draw the fields for a path and for an upload, and hand over what is chosen; a file that is refused says why.

    Args:
        key: beginning of the fields' keys.
        take: opens the file; an upload's is removed after it.
    """
    with st.form(key, border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        path = st.text_input(label, key=f"{key}-path", label_visibility="collapsed", placeholder=example)
        by_path = st.form_submit_button(button, key=f"{key}-open")
    upload = st.file_uploader(
        "Or upload a file", endings, key=f"{key}-upload", label_visibility="collapsed", max_upload_size=most_mb
    )
    quiet(hint)
    try:
        if by_path:
            take(store, place_of(path.strip()))
        elif upload is not None and ui_state.first_time(f"{key}-taken", upload.file_id):
            with tempfile.TemporaryDirectory(prefix="cutegen-upload-") as folder:
                file = Path(folder) / (Path(upload.name).name or "upload")
                file.write_bytes(upload.getvalue())
                take(store, file)
    except CutegenError as error:
        note("error", str(error))


def place_of(path: str) -> Path:
    """Find a file or folder.

    Raises:
        UsageError: there is neither, or no path.
    """
    if not path:
        raise UsageError(NO_PATH)
    try:
        place = Path(path).expanduser()
        found = place.exists()
    except (OSError, RuntimeError):  # a name too long for a file, the home of an unknown user
        found = False
    if not found:
        raise UsageError(f"{path} is neither a file nor a folder on this machine.")
    return place
