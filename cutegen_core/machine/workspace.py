"""Locate the workspace: the one folder where the workbench keeps its data; `CUTEGEN_HOME` moves it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cutegen_core.records.errors import StoreError, UsageError


def home() -> Path:
    """Return the workspace folder, created on first use; StoreError if that fails."""
    configured = os.environ.get("CUTEGEN_HOME")
    try:
        path = Path(configured).expanduser() if configured else Path.home() / ".local" / "share" / "cutegen"
    except RuntimeError as error:  # the home of an unknown user
        raise StoreError(f"cannot find the workspace: {error} Set CUTEGEN_HOME to a folder you may write.") from error
    return _create_folder(path.absolute())


def cache_dir(name: str) -> Path:
    """Return a folder for data that can be rebuilt: builds, headers, compiled cubins."""
    # Resolve links: precompiled headers contain absolute paths.
    return _create_folder(home() / "cache" / name).resolve()


def replace_file(path: Path, text: str) -> None:
    """Write the file whole, readable by its owner only: a reader, and a machine that fails, has the old or the new."""
    temporary = _write_temporary(path, text.encode())
    try:
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Create the file whole or not at all, readable by its owner only; leave one that another process has created."""
    temporary = _write_temporary(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)
    _sync_folder(path.parent)


def read_private(path: Path) -> bytes:
    """Return the content of a file that holds a secret.

    Permissions are checked on the opened file, so that it cannot be exchanged in between.

    Raises:
        FileNotFoundError: there is none.
        UsageError: it belongs to another user, or others can read it.
    """
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise UsageError(f"{path} can be read by others and is not used. Type: chmod 600 '{path}'")
        return stream.read()


def make_private(path: Path) -> Path:
    """Create the file if there is none, and take away what others may do with it; return the path.

    The folder may be one that existed before, with any rights. A file that exists is not opened: closing a database
    that this process also has open elsewhere would drop its locks.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        status = path.stat()
        if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(0o600)
    return path


def _write_temporary(path: Path, data: bytes) -> str:
    """Write the data, durably, to a file beside `path`; return its name."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        os.unlink(temporary)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create_folder(path: Path) -> Path:
    """Create the folder and every missing one above it for its owner only; one that exists stays as it is."""
    try:
        for each in (*reversed(path.parents), path):
            if not each.is_dir():
                each.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"cannot create {path}: {error.strerror}. Set CUTEGEN_HOME to a folder you may write."
        ) from error
    return path
