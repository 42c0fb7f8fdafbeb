"""Read a recording back: the session as it was, except for its origin, which says that it came from a file.

The file is checked before anything of it is kept: format and version, blobs against their keys, events in order and
as many as the first line announces, and the state they fold to.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records import as_json, older
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import Event, Recorded, SessionCreated, SessionState, StateChanged
from cutegen_core.share.exports.recording import FORMAT_VERSION
from cutegen_core.share.imports.building import READ_ONLY, Imported
from cutegen_core.share.imports.reading import read_lines
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import fold

_LATEST = 253402300799.0
"""The end of the year 9999: later times have no date."""
_EVENT: Any = Annotated[Event, Field(discriminator="kind")]
_GOING_ON = (SessionState.READY, SessionState.RUNNING, SessionState.AWAITING_REVIEW)


def import_recording(store: Store, path: Path) -> Imported:
    """Store the session; StoreError names the line that is not what it should be."""
    lines = _lines(path)
    head = next(lines, (0, None))[1]
    if not isinstance(head, dict) or head.get("cutegen") != "recording":
        raise StoreError(f"{path.name} is no recording of the workbench: its first line does not say so")
    if head.get("version") != FORMAT_VERSION:
        raise StoreError(f"{path.name} has format version {head.get('version')}; this workbench reads {FORMAT_VERSION}")
    blobs: dict[str, bytes] = {}
    events: list[Recorded] = []
    for number, line in lines:
        if "blob" in line:
            key, data = _blob(line, f"{path.name}, line {number}")
            blobs[key] = data
        else:
            events.append(_event(line, f"{path.name}, line {number}"))
    if len(events) != head.get("events"):
        counts = f"it announces {head.get('events')} events and holds {len(events)}"
        raise StoreError(f"{path.name} is cut off or was changed: {counts}")
    return _store(store, path, blobs, events)


def _store(store: Store, path: Path, blobs: dict[str, bytes], events: list[Recorded]) -> Imported:
    first = events[0].event if events else None
    if not isinstance(first, SessionCreated):
        raise StoreError(f"{path.name} does not begin with a session")
    settings = replace(first.settings, origin=f"imported from {show_hidden(path.name)}")
    events[0] = replace(events[0], event=SessionCreated(settings))
    state = fold(events)
    note = f"{len(events)} events, {len(blobs)} texts"
    if state.status in _GOING_ON:
        events.append(Recorded(events[-1].seq + 1, events[-1].at, StateChanged(SessionState.STOPPED, READ_ONLY)))
        note += f"; it was {state.status} when it was recorded"
    for data in blobs.values():
        store.put(data)
    session = store.adopt(events)
    return Imported(session, len(state.steps), note, (session,))


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{path.name}, line {number} is not JSON: {error}") from error
            if not isinstance(value, dict):
                raise StoreError(f"{path.name}, line {number} is not a JSON object")
            yield number, value


def _blob(line: dict[str, Any], where: str) -> tuple[str, bytes]:
    try:
        data = line["text"].encode() if "text" in line else base64.b64decode(line["base64"], validate=True)
    except (KeyError, AttributeError, TypeError, binascii.Error, UnicodeEncodeError) as error:
        raise StoreError(f"{where}: a blob without readable text") from error
    if content_key(data) != line["blob"]:
        raise StoreError(f"{where}: the text is not the one its key names; the file was changed")
    return line["blob"], data


def _event(line: dict[str, Any], where: str) -> Recorded:
    try:
        seq, at = line["seq"], line["at"]
        if type(seq) is not int or type(at) not in (int, float) or not 0 <= at <= _LATEST:
            raise ValueError("its number or its time cannot be one")
        return Recorded(seq, float(at), as_json.load(_EVENT, older.event(json.dumps(line["event"]))))
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise StoreError(f"{where}: not an event: {error}") from error
