"""Keep on disk what a problem file's process has answered about the file, so that the next command need not ask again.

1. An answer is named by everything that it rests on: the request with the file's text, this room's code, the versions
   of torch and numpy. What is drawn from a seed or compared is never kept.
2. It is the file's own word about itself, which is read as such again each time (`reference_answers`); another file
   has another name.
3. Answers of earlier code lie in another folder; only the latest few folders stay.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

from cutegen_core.machine import toolchain
from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.source_digest import digest
from cutegen_core.machine.worker import Message
from cutegen_core.machine.workspace import cache_dir, replace_file
from cutegen_core.records.candidate import content_key

OPERATIONS = frozenset(
    {"signature", "graph", "derive", "find_derived", "find_full_sizes", "input_facts", "place_facts"}
)
"""Questions about the file alone: neither a seed nor a kernel's output is part of them."""
GENERATIONS = 2
_ROOMS, _LIBRARIES = ("judge", "machine", "records"), ("torch", "numpy")


def load(payload: Message) -> Message | None:
    """Return the kept answer to a request; None if there is none, or it cannot be read."""
    if payload["operation"] not in OPERATIONS:
        return None
    try:
        answer: Message = json.loads(_entry(payload).read_bytes())
    except (OSError, ValueError):
        return None
    return answer


def save(payload: Message, answer: Message) -> None:
    """Keep an answer that could be used; a disk that cannot be written costs time only."""
    if payload["operation"] not in OPERATIONS:
        return
    entry = _entry(payload)
    try:
        if not entry.parent.is_dir():
            entry.parent.mkdir(parents=True)
            _remove_old(entry.parent.parent)
        replace_file(entry, json.dumps(answer))
    except OSError:
        return


def _entry(payload: Message) -> Path:
    return cache_dir("answers") / _code() / content_key(json.dumps(payload, sort_keys=True))


@cache
def _code() -> str:
    return digest(PACKAGE, _ROOMS, {name: toolchain.installed_version(name) for name in _LIBRARIES})[:16]


def _remove_old(folder: Path) -> None:
    """Remove all but the folders that were made last."""
    newest_first = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: -path.stat().st_mtime)
    for path in newest_first[GENERATIONS:]:
        shutil.rmtree(path, ignore_errors=True)
