"""How compile bombs end at the limits that hold in the product: verdict, seconds, memory, length of the log.

python -m benchmarks.toolchain.compile_bombs
"""

from __future__ import annotations

import resource
import time
from dataclasses import asdict

from benchmarks.conditions import write
from cutegen_core.execute.compiler.forks import CompileLimits
from cutegen_core.records.candidate import Author, Candidate
from tests.adversarial.bench import Bench
from tests.adversarial.corpus import CORPUS


def main() -> None:
    rows = []
    with Bench("cpu") as bench:
        bench.compiler.warm()
        evaluator = bench.evaluator("relu")
        for case in (case for case in CORPUS if case.limited):
            begun = time.monotonic()
            trial = evaluator.evaluate(Candidate(case.source, Author.PERSON), seed=1)
            row = {
                "bomb": case.name, "status": str(trial.status), "seconds": round(time.monotonic() - begun, 1),
                "log_kb": round(len(trial.log) / 1e3, 1), "message": trial.message[:300],
            }  # fmt: skip
            print(row, flush=True)
            rows.append(row)
    largest_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    write("compile_bombs", {"limits": asdict(CompileLimits()), "largest_child_mb": round(largest_mb), "bombs": rows})


if __name__ == "__main__":
    main()
