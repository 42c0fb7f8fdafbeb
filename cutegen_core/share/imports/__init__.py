"""Import sessions that happened elsewhere, to step through, diff and chart them here. Nothing in them is ever run.

1. `recording`: our own JSON lines; every event and text comes back as it was.
2. `upstream`: node files of the published CuTeGen runs: one node, a list, or a folder of them.
3. `kernelbench`: a run folder of KernelBench, with its eval_results.json.
What a file lacks becomes a step that says so; what cannot be read at all is counted and named.
"""

from __future__ import annotations

from pathlib import Path

from cutegen_core.records.errors import UsageError
from cutegen_core.share.imports.building import Imported
from cutegen_core.share.imports.kernelbench import import_run, is_run
from cutegen_core.share.imports.recording import import_recording
from cutegen_core.share.imports.upstream import import_nodes
from cutegen_core.trajectory.store import Store

__all__ = ["Imported", "import_path"]

_RECORDINGS = (".jsonl", ".jsonl.gz", ".gz")


def import_path(store: Store, path: Path) -> Imported:
    """Read a recording, a node file, or a folder of either kind of results into read-only sessions.

    Raises:
        UsageError: nothing there that any of the readers knows; the text says what was looked for.
        StoreError: a recording that is cut off or was changed.
    """
    try:
        if path.is_dir():
            return import_run(store, path) if is_run(path) else import_nodes(store, path)
        if path.name.endswith(_RECORDINGS):
            return import_recording(store, path)
        if path.suffix == ".json":
            return import_nodes(store, path)
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    except OSError as error:
        raise UsageError(f"cannot read {error.filename or path}: {error.strerror}") from error
    raise UsageError(f"{path} is no recording (.jsonl, .jsonl.gz), no CuTeGen node (.json), and no folder of results")
