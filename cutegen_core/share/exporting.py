"""Write one file of a session in a process of its own: `python -m cutegen_core.share.exporting --settings FILE`.

The engine starts it (`engine.job_slot`). It prints lines of JSON: {"progress": ...}, then {"result": ...} or
{"error": ...}. The file appears in the folder of the settings under its name once it is whole, never before.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from pathlib import Path

from cutegen_core.records import as_json
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.export import ExportProgress, ExportResult, ExportSettings
from cutegen_core.share.exports import FORMATS, export
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=Path, required=True)
    path: Path = parser.parse_args().settings
    settings = as_json.load(ExportSettings, path.read_bytes())
    try:
        jobs.say("result", _written(settings, path.parent))
    except (CutegenError, sqlite3.Error, OSError) as error:
        jobs.say_error(f"{settings.name} (format {settings.format}): {error}")
        return 1
    return 0


def _written(settings: ExportSettings, folder: Path) -> ExportResult:
    doing = "compiling with nvcc, if installed" if FORMATS[settings.format].compiles else "writing"
    jobs.say("progress", ExportProgress(doing))
    store = Store(read_only=True)
    made = export(store, settings.session, settings.format, jobs.partial(folder.name) / settings.name)
    store.close()
    os.replace(made.path, folder / settings.name)
    return ExportResult(settings.name, made.checked, made.note, (folder / settings.name).stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
