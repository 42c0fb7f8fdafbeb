"""Locate the workspace: the one folder where the workbench keeps its data; `CUTEGEN_HOME` moves it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cutegen_core.records.errors import StoreError


def home() -> Path:
    """Return the workspace folder, created on first use; StoreError if that fails."""
    configured = os.environ.get("CUTEGEN_HOME")
    path = Path(configured).expanduser() if configured else Path.home() / ".local" / "share" / "cutegen"
    return _create_folder(path.absolute())


def cache_dir(name: str) -> Path:
    """Return a folder for data that can be rebuilt: builds, headers, compiled cubins."""
    # Resolve links: precompiled headers contain absolute paths.
    return _create_folder(home() / "cache" / name).resolve()


def replace_file(path: Path, text: str) -> None:
    """Write the file whole, readable by its owner only: a reader sees the old text or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(temporary, path)


def _create_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"cannot create {path}: {error.strerror}. Set CUTEGEN_HOME to a folder you may write."
        ) from error
    return path
