"""Write result files: their rows, and what each says about the machine and the source it was measured with."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutegen_core import __version__
from cutegen_core.machine import toolchain

RESULTS = Path(__file__).parent / "results"
LOAD_BEFORE = os.getloadavg()
"""Over 1, 5 and 15 minutes when the benchmark was started: what else kept the processor busy."""
_SET_CHILD_SUBREAPER = 36
"""Of prctl."""


def conditions() -> Mapping[str, Any]:
    """Processor, memory, load, Python, versions of the toolchain, date, and which source was measured."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), "")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_before": [round(load, 2) for load in LOAD_BEFORE],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cutegen": __version__,
        "source": source_state(Path(__file__).parents[1]),
        "toolchain": dict(toolchain.installed_versions()),
    }


def source_state(folder: Path) -> Mapping[str, Any] | None:
    """Return the commit of a checkout and whether its files differ from it (results set aside).

    None where the folder is no checkout, or git is not installed.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(changed)}
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def adopt_orphans() -> None:
    """Make what outlives its parent, such as an engine, a child of this process: its processor time is counted here."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processor_seconds() -> float:
    """Return the processor time of this process and of all that come from it, ended or not."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended, and its parent counts it
        pid = int(path.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(int(field) for field in fields[11:15])
    return sum(ticks for pid, ticks in used.items() if _comes_from(pid, os.getpid(), parents)) / os.sysconf(
        "SC_CLK_TCK"
    )


def _comes_from(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor


def write(name: str, result: Mapping[str, Any]) -> None:
    """Write `results/NAME.json` with the conditions."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"conditions": conditions(), **result}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def replace_parts(name: str, parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace parts of `results/NAME.json`; each says under which conditions it was measured, the others stay."""
    path = RESULTS / f"{name}.json"
    kept = json.loads(path.read_text())
    kept |= {part: {"conditions": conditions(), **found} for part, found in parts.items()}
    path.write_text(json.dumps(kept, indent=2) + "\n")


class Rows:
    """The lines of a result file; a later line of the same key replaces an earlier one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.by_key: dict[str, dict[str, Any]] = {row["key"]: row for row in map(json.loads, lines)}

    def add(self, row: dict[str, Any]) -> None:
        self.by_key[row["key"]] = row
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
