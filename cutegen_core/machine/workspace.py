"""Where the workbench keeps things: one folder, moved by `CUTEGEN_HOME`."""

from __future__ import annotations

import os
from pathlib import Path

from cutegen_core.records.errors import StoreError


def home() -> Path:
    """The workspace folder, created on first use; StoreError when it cannot be."""
    configured = os.environ.get("CUTEGEN_HOME")
    path = Path(configured).expanduser() if configured else Path.home() / ".local" / "share" / "cutegen"
    return _created(path.absolute())


def cache_dir(name: str) -> Path:
    """A folder for things that can be made again: builds, headers, compiled cubins."""
    # Resolved: precompiled headers name absolute paths, and the folder may be reached through a link.
    return _created(home() / "cache" / name).resolve()


def _created(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"cannot create {path}: {error.strerror}. Set CUTEGEN_HOME to a folder you may write."
        ) from error
    return path
