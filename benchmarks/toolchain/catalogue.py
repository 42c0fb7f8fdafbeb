"""Every built-in problem through `cutegen run --auto --proposer playbook` with a cold cache: verdicts and seconds.

python -m benchmarks.toolchain.catalogue
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.conditions import write
from cutegen_core.problems import library


def run(problem: str, home: str) -> dict[str, Any]:
    """Run one problem; the workspace in `home` is shared, so the engine and its precompiled headers are too."""
    command = [sys.executable, "-m", "cutegen_core.cli", "run", "--problem", problem, "--auto", "--json"]
    begun = time.monotonic()
    done = subprocess.run(command, env=os.environ | {"CUTEGEN_HOME": home}, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    answer = json.loads(done.stdout) if done.stdout.strip() else {"state": "ERROR", "reason": done.stderr[-300:]}
    best = answer.get("best") or {}
    return {
        "problem": problem,
        "state": answer.get("state"),
        "status": best.get("status"),
        "steps": len(answer.get("steps", ())),
        "best": best.get("idea"),
        "seconds": round(seconds, 2),
        "reason": "" if answer.get("state") == "ACCEPTED" else answer.get("reason") or answer.get("error"),
    }


def main() -> None:
    rows = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as home:
        for problem in library.catalogue():
            rows.append(run(problem.name, home))
            row = rows[-1]
            print(f"{row['problem']:28} {row['state']:12} {row['steps']:3} steps {row['seconds']:7.1f} s", flush=True)
    total = time.monotonic() - begun
    accepted = sum(row["state"] == "ACCEPTED" and row["status"] == "PASSED" for row in rows)
    print(
        f"{accepted} of {len(rows)} accepted in {total:.0f} s, caches cold at the start (emulator preparation included)"
    )
    write("catalogue", {"accepted": accepted, "problems": len(rows), "total_seconds": round(total, 1), "rows": rows})


if __name__ == "__main__":
    main()
