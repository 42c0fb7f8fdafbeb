"""Write what a run does as JSON lines: `{"progress": ...}`, `{"report": ...}`, and at the end `{"result": ...}` or
`{"error": "text for a person"}`."""

from __future__ import annotations

import json
import time
from typing import TextIO

from cutegen_core.records import as_json
from cutegen_core.records.gnn import EpochReport, RunProgress, RunResult

_EVERY_S = 0.5


class Reporter:
    """The run's voice. Ranks other than the first are quiet, but for errors.

    Attributes:
        quiet: only errors are written.
    """

    def __init__(self, out: TextIO, *, quiet: bool = False) -> None:
        self._out = out
        self.quiet = quiet
        self._last = 0.0

    def progress(self, now: RunProgress, *, at_once: bool = False) -> None:
        """Write where the run is; every half second at most, unless `at_once`."""
        if self.quiet or not (at_once or self.is_due()):
            return
        self._last = time.monotonic()
        self._write("progress", now)

    def is_due(self) -> bool:
        """Return whether the next progress would be written."""
        return time.monotonic() - self._last >= _EVERY_S

    def epoch(self, report: EpochReport) -> None:
        """Write an epoch's report."""
        if not self.quiet:
            self._write("report", report)

    def result(self, result: RunResult) -> None:
        """Write the run's result."""
        if not self.quiet:
            self._write("result", result)

    def error(self, text: str) -> None:
        """Write why the run ends without a result."""
        self._line(json.dumps({"error": text}))

    def _write(self, kind: str, record: object) -> None:
        self._line(f'{{"{kind}":{as_json.dump(record)}}}')

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
