"""Problems by path, loaded once per state of the files."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from cutegen_core import problems
from cutegen_core.errors import ProblemError, UsageError
from cutegen_core.problems import Entry, FolderListing
from pages.components import access


def built_in() -> FolderListing:
    return FolderListing(tuple(Entry(p.name, Path(p.origin), p) for p in problems.catalogue()))


def load_path(path: str) -> FolderListing:
    """A file or a folder; UsageError when there is neither, AccessError for a viewer: it reads this machine's disk."""
    access.require_owner()
    place = Path(path).expanduser()
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    changed = tuple((str(f), f.stat().st_mtime_ns) for f in files if f.is_file())
    if not place.exists():
        raise UsageError(f"{path} is neither a file nor a folder on this machine.")
    with st.spinner(f"Loading {len(changed)} files, each in a process of its own …"):
        return _load(str(place), changed)


@st.cache_data(show_spinner=False, max_entries=16)
def _load(place: str, changed: tuple[tuple[str, int], ...]) -> FolderListing:
    path = Path(place)
    if path.is_dir():
        return problems.load_folder(path)
    try:
        return FolderListing((Entry(path.stem, path, problems.load(place)),))
    except ProblemError as error:
        return FolderListing((Entry(path.stem, path, None, str(error)),))
