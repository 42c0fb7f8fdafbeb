"""Where memory runs out for the judges of `judge_on_cpu`; written by a test, read by their processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

MOST_SETS = 7
"""So many sets fit into the memory of such a judge."""


def run_out_in(*operations: str) -> None:
    """Let memory run out, from now on, in these operations and no others, in every judge of this workspace."""
    _file().write_text(" ".join(operations))


def runs_out_in() -> Sequence[str]:
    return _file().read_text().split() if _file().exists() else ()


def _file() -> Path:
    return Path(os.environ["CUTEGEN_HOME"]) / "hungry"
