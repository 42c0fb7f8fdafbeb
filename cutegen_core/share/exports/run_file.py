"""A finished GNN run as one JSON file. `imports.run_file` reads it back, on a machine with or without a GPU."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

from cutegen_core import __version__
from cutegen_core.machine import workspace
from cutegen_core.records import as_json
from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import EpochReport, RunResult, RunSettings
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn

KIND, FORMAT_VERSION = "gnn run", 1


class RecordedRun(NamedTuple):
    """What the file holds; times are seconds since the Unix epoch."""

    settings: RunSettings
    epochs: tuple[EpochReport, ...]
    result: RunResult
    started_at: float
    ended_at: float


def recorded(store: Store, job: str) -> RecordedRun:
    """Return the run; UsageError if it has no result."""
    view = gnn.run_view(store, job)
    if view.result is None:
        raise UsageError(f"run {job} is {view.job.state} and has no result: only a finished run can be written")
    epochs = (*view.epochs, *view.others)
    return RecordedRun(view.settings, epochs, view.result, view.job.started_at, view.job.ended_at)


def run_text(run: RecordedRun) -> str:
    """Return the file's text; the checkpoint's folder, a path of this machine, is left out."""
    plain = as_json.to_plain(run.settings)
    result = as_json.to_plain(run.result) | {"epochs": []}
    for settings in (plain, result["settings"]):
        settings["checkpoint"] = ""
    epochs = [as_json.to_plain(epoch) for epoch in run.epochs]
    head = {"cutegen": KIND, "version": FORMAT_VERSION, "workbench": __version__}
    times = {"started_at": run.started_at, "ended_at": run.ended_at}
    return json.dumps(head | times | {"settings": plain, "epochs": epochs, "result": result}) + "\n"


def write_run(run: RecordedRun, output: Path) -> None:
    """Write the file; a name that ends in .gz compresses it."""
    text = run_text(run)
    if output.name.endswith(".gz"):
        output.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        workspace.replace_file(output, text)
