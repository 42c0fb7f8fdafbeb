"""List problems by name or path, and load each file once per state of it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import streamlit as st

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.problems import library, saved
from cutegen_core.problems.library import FolderListing, Loader, ProblemEntry
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.wording import counted
from pages.components.access import access
from pages.components.shared import ui_state
from pages.components.shared.file_choice import place_of

_AGREED = "paths-agreed"
_A_MOMENT_S = 0.5


def known() -> FolderListing:
    """List the problems saved in the workspace, then the built-in ones."""
    return FolderListing((*own().entries, *library.list_built_in().entries))


def own() -> FolderListing:
    """List the problems saved in the workspace, for viewers too."""
    folder = saved.folder()
    return _load_folder(folder) if folder.is_dir() else FolderListing(())


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
    if place.is_dir():
        return _load_folder(place)
    with st.spinner("Loading the file, in a process of its own …"):
        return FolderListing((_load_alone(str(place), _state(place)),))


def _load_folder(folder: Path) -> FolderListing:
    """Load the files of a folder; say how far it is once that has taken a moment."""
    files, entries = library.list_files(folder), []
    begun, shown = time.monotonic(), st.empty()
    with st.spinner(f"Loading {counted(len(files), 'file')}, each in its own process …"), Loader() as loader:
        for done, (name, file) in enumerate(files.items()):
            if time.monotonic() - begun > _A_MOMENT_S:
                shown.progress(done / len(files), f"{done + 1} of {len(files)}: {show_hidden(file.name)}")
            entries.append(replace(_load(os.fsencode(file), _state(file), loader), name=name))
    shown.empty()
    return FolderListing(tuple(entries))


def _state(file: Path) -> int:
    """Return when a file was changed: what an entry is kept under."""
    try:
        return file.stat().st_mtime_ns
    except OSError:  # a link that leads nowhere: its entry says so
        return 0


@st.cache_data(show_spinner=False, max_entries=4096)
def _load(file: bytes, changed: int, _loader: Loader) -> ProblemEntry:
    path = Path(os.fsdecode(file))  # the name of a file need not be text
    return library.load_entry(_loader, path, path.stem)


@st.cache_data(show_spinner=False, max_entries=16)
def _load_alone(file: str, changed: int) -> ProblemEntry:
    path = Path(file)
    try:
        return ProblemEntry(path.stem, path, library.load(file))
    except ProblemError as error:
        return ProblemEntry(path.stem, path, None, str(error))
