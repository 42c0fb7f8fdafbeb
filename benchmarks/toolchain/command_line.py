"""A kernel checked and a session run from the shell: what `cutegen check` and `cutegen run` take, from start to exit.

    python -m benchmarks.toolchain.command_line [--repeats 5] [--only NAME]

Everything runs in a workspace of its own, whose emulator is built first.

1. "check alone": an edited ReLU that no cache knows, and no engine runs.
2. "check with an engine": the same three times after an engine has been started; the first calls start its workers.
   With `--settled-s 15` the engine has had that long before, as it has while a person edits.
3. "cached run": `cutegen run --auto` of ReLU with the playbook, twice, everything compiled and judged before. The
   first starts an engine, which the second finds running.

Seconds on the clock depend on what else the machine does; processor seconds, of all processes together, hardly do.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.conditions import adopt_orphans, processor_seconds, write
from benchmarks.trials import edited

_KERNEL = Path(__file__).parents[2] / "tests" / "data" / "relu.cu"
_CALLS = 3
_ENGINE_S = 30.0

Sample = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--settled-s", type=float, default=0.0)
    parser.add_argument("--only", choices=_CASES)
    chosen = parser.parse_args()
    adopt_orphans()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder:
        os.environ["CUTEGEN_HOME"] = folder
        _check(Path(folder))  # builds the emulator
        for name, measure in _CASES.items():
            if chosen.only in (None, name):
                rounds = [measure(Path(folder), chosen.settled_s) for _ in range(chosen.repeats)]
                rows |= _medians(name, rounds)
    write("command_line", {"settled_seconds": chosen.settled_s, "commands": rows})


def _medians(name: str, rounds: Sequence[Sequence[Sample]]) -> Mapping[str, Any]:
    """Return a row for each call of a round, and print it."""
    found = {}
    for number, samples in enumerate(zip(*rounds, strict=True), 1):
        row = f"{name}, call {number}" if len(rounds[0]) > 1 else name
        median = {what: round(statistics.median(s[what] for s in samples), 2) for what in samples[0]}
        found[row] = {"n": len(samples), "median_seconds": median, "samples_seconds": samples}
        print(f"{row:32} {median['total']:.2f} s, {median['processor']:.2f} s of processor time", flush=True)
    return found


def _alone(home: Path, _: float) -> Sequence[Sample]:
    return [_check(home)]


def _with_engine(home: Path, settled_s: float) -> Sequence[Sample]:
    with subprocess.Popen([sys.executable, "-m", "cutegen_core.engine"]) as engine:
        try:
            _wait_until((home / "engine.sock").exists)
            time.sleep(settled_s)
            return [_check(home) for _ in range(_CALLS)]
        finally:
            engine.terminate()
            (home / "engine.sock").unlink(missing_ok=True)


def _cached_run(home: Path, _: float) -> Sequence[Sample]:
    run = ["run", "--problem", "relu", "--auto", "--proposer", "playbook"]
    _time(run)  # fills the caches, if need be
    _end_engine(home)
    found = [_time(run), _time(run)]
    _end_engine(home)
    return found


def _end_engine(home: Path) -> None:
    engine = int((home / "engine.lock").read_text())
    os.kill(engine, signal.SIGTERM)
    _wait_until(partial(_has_ended, engine))
    (home / "engine.sock").unlink(missing_ok=True)


_CASES: Mapping[str, Callable[[Path, float], Sequence[Sample]]] = {
    "check alone": _alone,
    "check with an engine": _with_engine,
    "cached run": _cached_run,
}


def _check(home: Path) -> Sample:
    """Time the check of an edit that nobody has seen."""
    file = home / "edited.cu"
    file.write_text(edited(_KERNEL.read_text()))
    return _time(["check", str(file), "--problem", "relu"])


def _time(arguments: Sequence[str]) -> Sample:
    begun, used = time.monotonic(), processor_seconds()
    command = [sys.executable, "-m", "cutegen_core.cli", *arguments, "--executor", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(f"cutegen {' '.join(arguments)} failed: {done.stderr[-1500:]}")
    return {"total": round(seconds, 3), "processor": round(processor_seconds() - used, 2)}


def _has_ended(pid: int) -> bool:
    """Return whether a child that was left to this process has ended."""
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def _wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _ENGINE_S
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("the engine neither began nor ended in time")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
