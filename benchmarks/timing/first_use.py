"""What the first use of a buffer set costs the contenders of a measurement, on the GPU of this machine.

    python -m benchmarks.timing.first_use [--repeats 2] [--name NAME] PROBLEM ...

The playbook's best kernel for each problem goes through whole trials, whose measurements are ones of 12 rounds of which
the first counts, too. A row for each measurement has, for each contender, its median and how its first round compares
with the others; and how long the candidate takes on values it has not seen, compared with those it has.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.conditions import write
from benchmarks.trials import edited, open_evaluator, playbook_kernel
from cutegen_core.evaluate.timing import series
from cutegen_core.evaluate.timing.schedule import RoundShare
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--name", default="gpu_first_use", help="of the file with the results")
    chosen = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder:
        store = Store(Path(folder) / "store.db")
        tools = Tools(store)
        try:
            for name in chosen.problems:
                with recorded(name, rows):
                    _measure(name, chosen.repeats, store, tools)
        finally:
            tools.close()
            store.close()
    write(chosen.name, {"device": asdict(choose_device(None)), "rows": rows})


@contextmanager
def recorded(problem: str, rows: list[Row]) -> Iterator[None]:
    """Measure all rounds, the first one, too, and add a row for each measurement."""
    measure_held, finds = series.Series._measure_held_sets, series._finds

    def begin(self: series.Series, share: RoundShare) -> None:
        columns = {c.contender.name: [median(taken) for taken in c.rounds if taken] for c in self.columns}
        rows.append({
            "problem": problem,
            "median_us": {name: round(median(us), 2) for name, us in columns.items()},
            "first_to_others": {name: round(us[0] / median(us[1:]), 4) for name, us in columns.items() if us[1:]},
        })  # fmt: skip
        measure_held(self, share)
        print(rows[-1], flush=True)

    def compare(seen_us: float, unseen_us: float) -> bool:
        rows[-1].setdefault("unseen_to_seen", round(unseen_us / seen_us, 4))
        return finds(seen_us, unseen_us)

    methods: dict[str, Any] = {
        "_measure_held_sets": begin, "_use_sets_first": lambda self, shares: None, "_say_enough": lambda self: False,
    }  # fmt: skip
    with patch.multiple(series.Series, **methods), patch.object(series, "_finds", compare):
        yield


def _measure(name: str, repeats: int, store: Store, tools: Tools) -> None:
    evaluator = open_evaluator(store, tools, library.load(name), ExecutorKind.GPU)
    kernel = playbook_kernel(evaluator)
    for _ in range(repeats):
        trial = evaluator.evaluate(Candidate(edited(kernel), Author.PERSON), seed=randbits(31))
        if not trial.passed:
            print(f"{name}: {trial.status}: {trial.message}", flush=True)


if __name__ == "__main__":
    main()
