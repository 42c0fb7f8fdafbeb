"""What the pages share: the store of the workspace."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from cutegen_core import workspace
from cutegen_core.store import Store


def store() -> Store:
    """The workspace's store, one object per server."""
    return _store(str(workspace.home()))


@st.cache_resource(show_spinner=False)
def _store(home: str) -> Store:
    return Store(Path(home) / "store.db")
