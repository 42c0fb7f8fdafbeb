"""Edit -> verdict on the emulator for an elementwise kernel, every cache missed: compile, both checks, resources.

python -m benchmarks.edit_to_verdict [REPEATS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from secrets import randbits

from benchmarks.conditions import write
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.trajectory.store import Store

KERNEL = Path(__file__).parent.parent / "tests" / "data" / "relu.cu"


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    problem, device = library.load("relu"), choose_device(None)
    compiler, executor = Compiler(device.arch), CpuExecutor()
    compiler.warm()
    executor.prepare(print)
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder, Reference(problem, Path(folder)) as reference:
        store = Store(Path(folder) / "store.db")
        evaluator = Evaluator(problem, reference, executor, compiler, device, store.put)
        for i in range(repeats + 1):
            source = KERNEL.read_text() + f"\n// edit {randbits(62)}\n__device__ int edit_{i}_{randbits(20)};\n"
            begun = time.monotonic()
            trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=randbits(31))
            seconds = time.monotonic() - begun
            assert trial.passed, trial.message
            if i:
                rows.append({"total": seconds} | {r.stage.lower(): r.seconds for r in trial.stages if r.seconds})
    compiler.close()
    medians = {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}
    slowest = max(row["total"] for row in rows)
    print(medians, f"slowest {slowest:.2f} s")
    write("edit_to_verdict", {"repeats": repeats, "median_seconds": medians, "slowest_seconds": round(slowest, 3)})


if __name__ == "__main__":
    main()
