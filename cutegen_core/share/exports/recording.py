"""A session as one file: JSON lines that hold its events and every blob they name. `imports` reads it back.

1. The first line says what the file is: {"cutegen": "recording", "version": 1, "session": ..., ...}.
2. Then one line a blob, {"blob": key, "text": ...} or {"blob": key, "base64": ...}, before the event that names it.
3. And one line an event, {"seq": ..., "at": ..., "event": {...}}, in order.
Blobs of the machine (cubins) are left out: they can be made again. A name that ends in .gz is compressed.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cutegen_core import __version__
from cutegen_core.records import as_json
from cutegen_core.records.errors import StoreError, UsageError
from cutegen_core.records.event import SessionCreated
from cutegen_core.trajectory.store import Store

FORMAT_VERSION = 1
_KEY = re.compile(r"[0-9a-f]{64}")
_LEFT_OUT = ("cubin",)


def recording(store: Store, session: str) -> Iterator[str]:
    """Yield the lines, without line ends.

    Raises:
        UsageError: there is no such session.
    """
    events = store.events(session)
    first = events[0].event if events else None
    if not isinstance(first, SessionCreated):
        raise UsageError(f"there is no session {session}; `cutegen sessions` lists them")
    settings = first.settings
    yield _line(
        {
            "cutegen": "recording", "version": FORMAT_VERSION, "workbench": __version__, "session": session,
            "problem": settings.problem_name, "executor": settings.executor, "events": len(events),
            "origin": settings.origin,
        }
    )  # fmt: skip
    written: set[str] = set()
    for recorded in events:
        event = as_json.to_plain(recorded.event)
        for key in _keys(event):
            yield from _blob(store, key, written)
        yield _line({"seq": recorded.seq, "at": recorded.at, "event": event})


def write_recording(store: Store, session: str, output: Path) -> None:
    """Write the file; a name that ends in .gz compresses it."""
    write_lines(recording(store, session), output)


def write_lines(lines: Iterator[str], output: Path) -> None:
    """Write the lines, compressed if the name ends in .gz. The same session always gives the same bytes."""
    data = "".join(f"{line}\n" for line in lines).encode()
    if output.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed:
            packed.write(data)
        data = buffer.getvalue()
    output.write_bytes(data)


def _blob(store: Store, key: str, written: set[str]) -> Iterator[str]:
    """Yield the blob, after the blobs that it names itself (a trial names its SASS)."""
    if key in written:
        return
    written.add(key)
    try:
        data = store.get(key)
    except StoreError:
        return  # a digest that is no blob's, such as one of a source the person typed
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield _line({"blob": key, "base64": base64.b64encode(data).decode()})
        return
    if text.startswith("{"):
        try:
            inner = json.loads(text)
        except ValueError:
            inner = None
        for named in _keys(inner):
            yield from _blob(store, named, written)
    yield _line({"blob": key, "text": text})


def _keys(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield everything in it that looks like a content key."""
    if isinstance(value, str):
        if _KEY.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _LEFT_OUT:
                yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False)
