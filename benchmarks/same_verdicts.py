"""The same verdict whoever else works on the machine: kernels of the adversarial corpus, tried again and again.

1. Kernels are taken evenly from the corpus, which is ordered by kind. Each keeps one seed.
2. Each is tried under four conditions: the emulator with one worker process and with two, on processors that are idle
   otherwise (`--repeats` times) and on ones where 16 processes compute (`--busy` times).
3. The status and every finding (kind, variable, line) must be the same every time.

python -m benchmarks.same_verdicts [--kernels 50] [--repeats 8] [--busy 2] [--shard 0/1]

With shards, each writes a file of its own; `taskset` gives each processors of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

from benchmarks.conditions import write
from cutegen_core.records.trial import Trial
from tests.adversarial.bench import Bench
from tests.adversarial.case import Case
from tests.adversarial.corpus import applying

LOAD = 16
SEED = 20261122


class Found(NamedTuple):
    """What must not change."""

    status: str
    findings: tuple[tuple[str, str, int], ...]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_verdicts")
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=8, help="of each kernel, with each number of workers, idle")
    parser.add_argument("--busy", type=int, default=2, help="the same on a busy machine: 8 times as long")
    parser.add_argument("--shard", default="0/1", help="1/4: every fourth of these kernels, from the second on")
    chosen = parser.parse_args()
    part, parts = (int(n) for n in chosen.shard.split("/"))
    cases = applying("cpu")
    picked = [cases[number * len(cases) // chosen.kernels] for number in range(chosen.kernels)][part::parts]
    begun, found = time.monotonic(), {case.name: Counter[Found]() for case in picked}
    with Bench("cpu") as bench:
        for case in picked:  # builds are kept from here on
            found[case.name][_try(bench, case)] += 1
        for workers, busy in product((1, 2), (False, True)):
            with _workers(workers), _load(LOAD if busy else 0):
                for case in picked:
                    times = chosen.busy if busy else chosen.repeats
                    found[case.name].update(_try(bench, case) for _ in range(times))
            print(f"workers {workers}, load {LOAD if busy else 0}: {_differing(found)} differ", flush=True)
    rows = {name: [(*one, times) for one, times in counted.most_common()] for name, counted in found.items()}
    write(
        "same_verdicts" + (f"-{part}" if parts > 1 else ""),
        {
            "kernels": len(picked), "repeats_idle": 2 * chosen.repeats, "repeats_busy": 2 * chosen.busy, "load": LOAD,
            "workers": [1, 2],
            "trials": sum(counted.total() for counted in found.values()), "differing": _differing(found),
            "seconds": round(time.monotonic() - begun), "verdicts": rows,
        },
    )  # fmt: skip
    sys.exit(bool(_differing(found)))


def _differing(found: dict[str, Counter[Found]]) -> int:
    return sum(len(counted) > 1 for counted in found.values())


def _try(bench: Bench, case: Case) -> Found:
    trial: Trial = bench.evaluate(case, SEED)
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    findings = tuple((f.kind, f.variable, f.line) for verdict in verdicts for f in verdict.findings)
    return Found(trial.status, findings)


@contextmanager
def _workers(count: int) -> Iterator[None]:
    """Let the emulator see so many processors: it starts a worker process for each."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _load(processes: int) -> Iterator[None]:
    busy = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(processes)]
    for one in busy:
        one.start()
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.join()


def _compute() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
