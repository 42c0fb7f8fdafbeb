"""Read a GNN run that happened elsewhere, to look at it here. Nothing in it is ever run.

The file is checked before anything of it is kept: kind and version, its size once unpacked, every setting by the rules
of the form, every number by what a measurement can be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records import as_json, gnn_fields
from cutegen_core.records.errors import StoreError, UsageError
from cutegen_core.records.gnn import EpochReport, RunResult, RunSettings, Task
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.share.exports.run_file import FORMAT_VERSION, KIND
from cutegen_core.share.imports.reading import LONGEST_LINE, read_lines
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views.gnn import run_title

_LARGEST = 1e15
"""No time in seconds, and no count, of a run is larger."""
_LATEST = 253402300799.0
"""The end of the year 9999: later times have no date."""
_LONGEST_TEXT = 2000
_MOST_EPOCHS, _MOST_SPANS, _MOST_FACTS = 100_000, 5_000, 100


class RunImport(NamedTuple):
    """The job that the run became, and how many epochs it has."""

    job: str
    epochs: int


def import_run_file(store: Store, path: Path) -> RunImport:
    """Store the run as a job that is over.

    Raises:
        UsageError: the file cannot be read.
        StoreError: it is no run of the workbench, or not what it should be; the text says what.
    """
    document = _document(path)
    try:
        settings = _record(RunSettings, document, "settings")
        is_infer = settings.task is Task.INFER  # whose checkpoint is not in the file
        gnn_fields.check(replace(settings, checkpoint="elsewhere" if is_infer else ""))
        epochs = [_epoch(value) for value in _list(document, "epochs", _MOST_EPOCHS)]
        result = _record(RunResult, document, "result")
        _check_result(result)
        started, ended = (_time(document, name) for name in ("started_at", "ended_at"))
    except (StoreError, UsageError, ValueError, TypeError) as error:
        raise StoreError(f"{path.name} is not what a run's file should be: {error}") from error
    job = Job(
        "", JobKind.GNN, run_title(settings), as_json.dump(settings), JobState.DONE, created_at=started,
        started_at=started, ended_at=ended, origin=f"imported from {show_hidden(path.name)}",
        result=store.put_record(replace(result, epochs=())),
    )  # fmt: skip
    return RunImport(jobs.adopt(store, job, [as_json.dump(epoch) for epoch in epochs]), len(epochs))


def _document(path: Path) -> dict[str, Any]:
    try:
        text = b"".join(_bounded(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("cutegen") != KIND:
        raise StoreError(f'{path.name} is no recorded GNN run: it does not begin with {{"cutegen": "{KIND}"')
    if document.get("version") != FORMAT_VERSION:
        found = str(document.get("version"))[:20]
        raise StoreError(f"{path.name} has format version {found}; this workbench reads {FORMAT_VERSION}")
    return document


def _bounded(path: Path) -> Iterator[bytes]:
    size = 0
    for line in read_lines(path):
        size += len(line)
        if size > LONGEST_LINE:
            raise StoreError(f"{path.name} has more than {LONGEST_LINE >> 20} MiB, which no run has")
        yield line


def _record(kind: type[Any], document: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - the type is `kind`
    return as_json.load(kind, json.dumps(document.get(name)))


def _list(document: Mapping[str, Any], name: str, most: int) -> list[Any]:
    found = document.get(name)
    if not isinstance(found, list) or len(found) > most:
        raise ValueError(f"{name} is no list of at most {most:,}")
    return found


def _time(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    if isinstance(value, int | float) and 0 <= value <= _LATEST:
        return float(value)
    raise ValueError(f"{name} is no time")


def _epoch(value: object) -> EpochReport:
    epoch = as_json.load(EpochReport, json.dumps(value))
    if len(epoch.timeline) > _MOST_SPANS:
        raise ValueError(f"epoch {epoch.epoch} has more than {_MOST_SPANS:,} spans")
    _check(as_json.to_plain(replace(epoch, loss=0.0)))
    if not (math.isnan(epoch.loss) or abs(epoch.loss) <= _LARGEST):
        raise ValueError("a loss is out of range")
    if epoch.accuracy is not None and not 0 <= epoch.accuracy <= 1:
        raise ValueError("an accuracy is not between 0 and 1")
    return epoch


def _check_result(result: RunResult) -> None:
    if result.epochs or max(len(result.machine), len(result.notes), len(result.aggregates)) > _MOST_FACTS:
        raise ValueError("its result has more entries than a run has")
    _check(as_json.to_plain(replace(result, settings=RunSettings())))


def _check(value: object) -> None:
    """Raise ValueError for a number that is negative, not finite or too large, or a text that is too long."""
    if isinstance(value, dict):
        for name, each in value.items():
            _check(name)
            _check(each)
    elif isinstance(value, list):
        for each in value:
            _check(each)
    elif isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise ValueError(f"a text of more than {_LONGEST_TEXT:,} characters")
    elif isinstance(value, int | float) and not 0 <= value <= _LARGEST:
        raise ValueError(f"{str(value)[:30]} is no time and no count")
