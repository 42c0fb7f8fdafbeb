"""What every result file says about the machine it was measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutegen_core import __version__, toolchain

RESULTS = Path(__file__).parent / "results"


def conditions() -> Mapping[str, Any]:
    """Processor, memory, Python, versions of the toolchain, date."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), "")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cutegen": __version__,
        "toolchain": dict(toolchain.versions()),
    }


def write(name: str, result: Mapping[str, Any]) -> None:
    """Writes `results/NAME.json` with the conditions."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"conditions": conditions(), **result}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
