"""Problems through `cutegen run --auto --proposer playbook` on the emulator, from a cold cache: verdicts and seconds.

    python -m benchmarks.toolchain.catalogue                                  # every built-in problem
    python -m benchmarks.toolchain.catalogue FOLDER ... [--add] [--name kernelbench_emulator]     # every file of these

Problems follow one another in a workspace of their own, so that the first starts an engine, and its workers, for all.
Seconds on the clock depend on what else the machine does; processor seconds, of all processes together, hardly do. The
result file is written after each problem; `--add` leaves out those that a present one has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import conditions
from cutegen_core.problems import library

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="with KernelBench files; none: the built-in problems")
    parser.add_argument("--name", default="catalogue", help="of the file with the results")
    parser.add_argument("--add", action="store_true", help="only problems that the result file does not have")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="no problem is begun after this")
    chosen = parser.parse_args()
    deadline = time.monotonic() + chosen.limit_s
    rows = _present(chosen.name) if chosen.add else []
    known = {row["problem"] for row in rows}
    conditions.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as home:
        for label, problem in _problems(chosen.folders):
            if label not in known and time.monotonic() < deadline:
                rows.append({"problem": label, **_run(problem, home)})
                _tell(rows[-1])
                conditions.write(chosen.name, _summary(rows))
    print({name: value for name, value in _summary(rows).items() if name != "rows"})


def _problems(folders: Sequence[Path]) -> list[tuple[str, str]]:
    """Return a label and what `--problem` takes, for each problem; numbered files in the order of their numbers."""
    if not folders:
        return [(problem.name, problem.name) for problem in library.catalogue()]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"), key=_number)]
    return [(f"{file.parent.name}/{file.stem}", str(file.resolve())) for file in files]


def _number(file: Path) -> tuple[int, str]:
    first = file.stem.partition("_")[0]
    return int(first) if first.isdigit() else sys.maxsize, file.stem


def _present(name: str) -> list[Row]:
    path = conditions.RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def _run(problem: str, home: str) -> Row:
    command = [sys.executable, "-m", "cutegen_core.cli", "run", "--problem", problem, "--auto", "--json"]
    command += ["--proposer", "playbook", "--executor", "cpu"]
    begun, used = time.monotonic(), conditions.processor_seconds()
    done = subprocess.run(command, env=os.environ | {"CUTEGEN_HOME": home}, capture_output=True, text=True, check=False)
    seconds, used = time.monotonic() - begun, conditions.processor_seconds() - used
    answer = json.loads(done.stdout) if done.stdout.strip() else {"state": "ERROR", "reason": done.stderr[-300:]}
    best = answer.get("best") or {}
    return {
        "state": answer.get("state"),
        "status": best.get("status"),
        "steps": len(answer.get("steps", ())),
        "best": best.get("idea"),
        "seconds": round(seconds, 2),
        "processor_seconds": round(used, 2),
        "reason": "" if answer.get("state") == "ACCEPTED" else answer.get("reason") or answer.get("error"),
    }


def _tell(row: Row) -> None:
    times = f"{row['seconds']:7.1f} s, {row['processor_seconds']:7.1f} s of processor time"
    print(f"{row['problem']:60} {row['state']:12} {row['steps']:3} steps {times}", flush=True)


def _summary(rows: Sequence[Row]) -> Row:
    accepted = [row for row in rows if row["state"] == "ACCEPTED" and row["status"] == "PASSED"]
    seconds = [row["seconds"] for row in rows]
    return {
        "accepted": len(accepted),
        "problems": len(rows),
        "total_seconds": round(sum(seconds), 1),
        "over_90_seconds": [row["problem"] for row in rows if row["seconds"] > 90],
        "rows": rows,
    }


if __name__ == "__main__":
    main()
