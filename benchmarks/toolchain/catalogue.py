"""Problems through `cutegen run --auto --proposer playbook` on the emulator, from a cold cache: verdicts and seconds.

    python -m benchmarks.toolchain.catalogue                                  # every built-in problem
    python -m benchmarks.toolchain.catalogue FOLDER ... [--add] [--name kernelbench_emulator]     # every file of these

Problems follow one another in a workspace of their own, so that the first starts an engine, and its workers, for all.
With `--at-once N` that happens N times, on two cores each; `cutegen` sees no others. The result file is written after
each problem; `--add` leaves out those that a present one has, and keeps its conditions as `earlier`. Seconds on the
clock depend on what else the machine does; processor seconds, of all processes of a run that is alone, hardly do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from benchmarks import conditions
from benchmarks.trials import files_of
from cutegen_core.problems import library

Row = dict[str, Any]


def main() -> None:
    chosen = _arguments()
    deadline = time.monotonic() + chosen.limit_s
    before = _present(chosen.name) if chosen.add else {}
    rows: list[Row] = before.get("rows", [])
    earlier = [*before.get("earlier", []), before["conditions"]] if before else []
    known = {row["problem"] for row in rows}
    waiting = deque(one for one in _problems(chosen.folders) if one[0] not in known)
    writing = Lock()
    conditions.adopt_orphans()

    def work(number: int) -> None:
        cores = _cores(number) if chosen.at_once > 1 else ""
        with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as home:
            while waiting and time.monotonic() < deadline:
                label, problem = waiting.popleft()
                row = {"problem": label, **_run(problem, home, cores)}
                with writing:
                    rows.append(row)
                    _tell(row)
                    conditions.write(chosen.name, {"earlier": earlier, **_summary(rows, chosen.at_once)})

    with ThreadPoolExecutor(chosen.at_once) as pool:
        list(pool.map(work, range(chosen.at_once)))
    print({name: value for name, value in _summary(rows, chosen.at_once).items() if name != "rows"})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="with KernelBench files; none: the built-in problems")
    parser.add_argument("--name", default="catalogue", help="of the file with the results")
    parser.add_argument("--add", action="store_true", help="only problems that the result file does not have")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="runs at a time, on two cores each")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="no problem is begun after this")
    return parser.parse_args()


def _cores(number: int) -> str:
    """Return the numbers of the two cores of one of several runs, as `taskset` takes them.

    Raises:
        SystemExit: there are fewer.
    """
    mine = [str(core) for core in sorted(os.sched_getaffinity(0))][2 * number : 2 * number + 2]
    if len(mine) < 2:
        raise SystemExit(f"--at-once: {number + 1} runs take {2 * number + 2} cores")
    return ",".join(mine)


def _problems(folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return a label and what `--problem` takes, for each problem."""
    if not folders:
        return [(problem.name, problem.name) for problem in library.catalogue()]
    return files_of(folders)


def _present(name: str) -> Row:
    path = conditions.RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _run(problem: str, home: str, cores: str) -> Row:
    command = [sys.executable, "-m", "cutegen_core.cli", "run", "--problem", problem, "--auto", "--json"]
    command += ["--proposer", "playbook", "--executor", "cpu"]
    begun, used = time.monotonic(), conditions.processor_seconds()
    if cores:
        command = ["taskset", "--cpu-list", cores, *command]
    done = subprocess.run(command, env=os.environ | {"CUTEGEN_HOME": home}, capture_output=True, text=True, check=False)
    seconds, used = time.monotonic() - begun, conditions.processor_seconds() - used
    answer = json.loads(done.stdout) if done.stdout.strip() else {"state": "ERROR", "reason": done.stderr[-300:]}
    best = answer.get("best") or {}
    return {
        "state": answer.get("state"),
        "status": best.get("status"),
        "steps": len(answer.get("steps", ())),
        "not_passed": _not_passed(answer),
        "best": best.get("idea"),
        "seconds": round(seconds, 2),
        **({} if cores else {"processor_seconds": round(used, 2)}),
        "reason": "" if answer.get("state") == "ACCEPTED" else answer.get("reason") or answer.get("error"),
    }


def _not_passed(answer: Row) -> list[str]:
    """Return the number, status and message of each step whose kernel did not pass."""
    tried = [step for step in answer.get("steps", ()) if step["candidate"] and step["status"] != "PASSED"]
    return [f"{step['number']}: {step['status']}: {step['message'][:300]}" for step in tried]


def _tell(row: Row) -> None:
    used = f", {row['processor_seconds']:7.1f} s of processor time" if "processor_seconds" in row else ""
    print(f"{row['problem']:60} {row['state']:12} {row['steps']:3} steps {row['seconds']:7.1f} s{used}", flush=True)
    for step in row["not_passed"]:
        print(f"    step {step}", flush=True)


def _summary(rows: Sequence[Row], at_once: int) -> Row:
    accepted = [row for row in rows if row["state"] == "ACCEPTED" and row["status"] == "PASSED"]
    seconds = [row["seconds"] for row in rows]
    return {
        "accepted": len(accepted),
        "problems": len(rows),
        "at_once": at_once,
        "total_seconds": round(sum(seconds), 1),
        "with_steps_not_passed": [row["problem"] for row in rows if row.get("not_passed")],
        "over_90_seconds": [row["problem"] for row in rows if row["seconds"] > 90],
        "rows": rows,
    }


if __name__ == "__main__":
    main()
