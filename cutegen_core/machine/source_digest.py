"""Digest what an answer rests on: source files of the package's rooms, and versions.

Both are read from disk, so a clone that was edited or updated does not answer with what its code said before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path


def digest(package: Path, rooms: Iterable[str], versions: Mapping[str, str]) -> str:
    """Return the SHA-256 of the rooms' sources, each under its path in the package, and of the versions, in hex."""
    made = hashlib.sha256()
    for room in rooms:
        for path in sorted((package / room).rglob("*")):
            if _is_source(path):
                content = path.read_bytes()
                made.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    for name, version in sorted(versions.items()):
        made.update(f"{name} {version}\n".encode())
    return made.hexdigest()


def _is_source(path: Path) -> bool:
    """Tell whether it is a file of ours, not one that Python or an editor leaves beside them."""
    left_over = path.suffix == ".pyc" or path.name.startswith((".", "#")) or path.name.endswith("~")
    return path.is_file() and not left_over
