"""Run tests while the branches they take are counted, and print by room how many there are and how many were taken.

    python -m tests.coverage_by_room                     # all tests; any arguments of pytest
    python -m tests.coverage_by_room tests/kernel tests/trajectory

What is counted and what cannot be is in docs/testing.md, the settings are in pyproject.toml. `python -m coverage html`
shows the same lines afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.places import ROOT

COVERAGE = (sys.executable, "-m", "coverage")
TESTS = ("-m", "pytest", "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
_LINES, _BRANCHES = ("covered_lines", "num_statements"), ("covered_branches", "num_branches")


def room_of(path: str) -> str:
    """Return the room of a file: the folder below `cutegen_core`; what lies outside all rooms is the folder's own."""
    top, *below = Path(path).parts[:-1] or (".",)
    return f"{top}/{below[0]}" if top == "cutegen_core" and below else top


def table(report: Mapping[str, Any]) -> str:
    """Return a line for each room of a report of coverage.py in JSON, and one for all."""
    rooms: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        rooms.setdefault(room_of(path), Counter()).update({key: file["summary"][key] for key in _LINES + _BRANCHES})
    rooms = dict(sorted(rooms.items())) | {"all": sum(rooms.values(), Counter())}
    head = f"{'room':<28}{'lines':>8}{'run':>9}{'branches':>10}{'taken':>9}\n"
    return head + "".join(
        f"{room:<28}{_share(sums, *_LINES, 8)}{_share(sums, *_BRANCHES, 10)}\n" for room, sums in rooms.items()
    )


def _share(sums: Counter[str], covered: str, of: str, width: int) -> str:
    return f"{sums[of]:>{width}}{100 * sums[covered] / sums[of]:>7.1f} %" if sums[of] else f"{0:>{width}}{'-':>9}"


def main(arguments: list[str]) -> int:
    """Return what pytest returned: failed tests keep nobody from looking at what they covered."""
    subprocess.run([*COVERAGE, "erase"], cwd=ROOT, check=True)
    tests = subprocess.run([*COVERAGE, "run", *TESTS, *arguments], cwd=ROOT, check=False)
    subprocess.run([*COVERAGE, "combine", "--quiet"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([*COVERAGE, "json", "--quiet", "-o", report], cwd=ROOT, check=True)
        print(table(json.loads(report.read_text())))
    return tests.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
