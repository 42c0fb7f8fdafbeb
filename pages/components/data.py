"""What the pages share: the store of the workspace."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from cutegen_core import workspace
from cutegen_core.store import Store
from pages.components import access


def store() -> Store:
    """The workspace's store, one object per server; a viewer's cannot be written."""
    return _store(str(workspace.home()), access.role() is access.Role.VIEWER)


@st.cache_resource(show_spinner=False)
def _store(home: str, read_only: bool) -> Store:
    return Store(Path(home) / "store.db", read_only=read_only)
