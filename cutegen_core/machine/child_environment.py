"""Make the environment of a child process: an allow-list."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PASSED_THROUGH = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "CUTEGEN_HOME", "CUTEGEN_SANDBOX_MAX")


def child_environment(private_home: Path) -> dict[str, str]:
    """Return the environment of every child: an allow-list, so that API keys never reach a child."""
    kept = {name: os.environ[name] for name in _PASSED_THROUGH if name in os.environ}
    return kept | {"HOME": str(private_home), "TMPDIR": str(private_home), "PYTHONPATH": os.pathsep.join(sys.path)}
