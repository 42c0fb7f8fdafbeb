"""Run the GNN workload as a process: `python -m cutegen_core.workloads.gnn --settings FILE.json`.

stdout carries JSON lines only (`reporting.py`); whatever else is written goes to stderr. Exit codes: 0 with a result, 1
with an error, 128 + the signal when it was asked to end (`stopping.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path
from typing import TextIO

from cutegen_core.records import as_json
from cutegen_core.records.errors import CutegenError, StoppedError, UsageError
from cutegen_core.records.gnn import RunSettings
from cutegen_core.workloads.gnn.reporting import Reporter
from cutegen_core.workloads.gnn.stopping import StopRequest
from cutegen_core.workloads.gnn.training.launch import run_ranks
from cutegen_core.workloads.gnn.training.settings import check_settings


def main() -> int:
    """Run what the settings ask; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cutegen_core.workloads.gnn", description=__doc__)
    parser.add_argument("--settings", required=True, metavar="FILE", help="JSON of a run's settings")
    given = parser.parse_args().settings
    out, stop = _claim_stdout(), StopRequest()
    stop.listen()
    reporter = Reporter(out)
    try:
        settings = _read_settings(given)
        if settings.ranks > 1 and "RANK" not in os.environ:
            return run_ranks(given, settings.ranks, out, stop)
        from cutegen_core.workloads.gnn.task import run_task  # imports torch: not for wrong settings, nor to launch

        reporter.result(run_task(settings, reporter, stop))
    except StoppedError:
        return stop.exit_code
    except CutegenError as error:
        reporter.error(str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - the boundary of the process: whoever reads its lines must learn of it
        traceback.print_exc()
        reporter.error(_explain(error))
        return 1
    return 0


def _read_settings(path: str) -> RunSettings:
    try:
        settings = as_json.load(RunSettings, Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"the settings {path} cannot be read: {error.strerror}.") from error
    check_settings(settings)
    return settings


def _explain(error: Exception) -> str:
    if type(error).__name__ == "OutOfMemoryError":  # torch's; it may not be imported yet
        return (
            f"the GPU has too little memory. Lower batch_size, hidden or fanouts, or keep features on the host. {error}"
        )
    return f"the run failed: {type(error).__name__}: {error}. The log has the whole message."


def _claim_stdout() -> TextIO:
    """Return this process's stdout for the JSON lines; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), 1)
    return out


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # all is written and every thread has ended; taking torch apart would take seconds
