"""List problems by name or path, and load them once per state of the files."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from cutegen_core.problems import library, saved
from cutegen_core.problems.library import FolderListing, ProblemEntry
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.wording import counted
from pages.components.access import access
from pages.components.shared import ui_state
from pages.components.shared.file_choice import place_of

_AGREED = "paths-agreed"


def known() -> FolderListing:
    """List the problems saved in the workspace, then the built-in ones."""
    return FolderListing((*own().entries, *library.list_built_in().entries))


def own() -> FolderListing:
    """List the problems saved in the workspace, for viewers too."""
    folder = saved.folder()
    return _load(str(folder), _state(folder)) if folder.is_dir() else FolderListing(())


def agree_to(path: str) -> None:
    """Note that the person at this tab wants the files of a path to be loaded, which runs them."""
    ui_state.kept(_AGREED, set[str]).add(path)


def waits_for_click(path: str) -> bool:
    """Tell whether the owner has only followed a link to this path, which loads nothing.

    Raises:
        UsageError: there is no such file or folder.
    """
    if access.role() is not access.AccessRole.OWNER or path in ui_state.kept(_AGREED, set[str]):
        return False
    return bool(place_of(path))


def load_path(path: str) -> FolderListing:
    """Load a file or a folder of this machine.

    Raises:
        UsageError: there is no such file or folder.
        AccessError: this is a viewer, who must not read the disk.
    """
    access.require_owner()
    place = place_of(path)
    changed = _state(place)
    with st.spinner(f"Loading {counted(len(changed), 'file')}, each in its own process …"):
        return _load(str(place), changed)


def _state(place: Path) -> tuple[tuple[bytes, int], ...]:
    """List every file with the time it was changed: the key that a listing is kept under."""
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return tuple((os.fsencode(f), f.stat().st_mtime_ns) for f in files if f.is_file())


@st.cache_data(show_spinner=False, max_entries=16)
def _load(place: str, changed: tuple[tuple[bytes, int], ...]) -> FolderListing:
    path = Path(place)
    if path.is_dir():
        return library.load_folder(path)
    try:
        return FolderListing((ProblemEntry(path.stem, path, library.load(place)),))
    except ProblemError as error:
        return FolderListing((ProblemEntry(path.stem, path, None, str(error)),))
