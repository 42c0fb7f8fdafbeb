"""Give the pages what they share: the store of the workspace, and figures made once for all tabs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from cutegen_core.machine import workspace
from cutegen_core.trajectory.store import Store
from pages.components.access import access

P = ParamSpec("P")
T = TypeVar("T")


def once(make: Callable[P, T], *content: P.args, **more: P.kwargs) -> T:
    """Make something of this content once and keep it: a figure takes longer than the rest of its page.

    The result is shared, so callers must not change it.
    """
    return _once(make, content, tuple(more.items()))


@lru_cache(maxsize=256)
def _once(make: Callable[..., T], content: tuple[Any, ...], more: tuple[tuple[str, Any], ...]) -> T:
    return make(*content, **dict(more))


def store() -> Store:
    """Return the workspace's store, one object per server; a viewer's cannot be written."""
    return _store(str(workspace.home()), access.role() is not access.AccessRole.OWNER)


def requests_store() -> Store:
    """Return the store into which a request for a file of a session is put: a viewer's too, who may write nothing
    else."""
    return _store(str(workspace.home()), False)


def forget_store() -> None:
    """Open the store again for the next page: its file was deleted or replaced."""
    _store.clear()


@st.cache_resource(show_spinner=False)
def _store(home: str, read_only: bool) -> Store:
    return Store(Path(home) / "store.db", read_only=read_only)
