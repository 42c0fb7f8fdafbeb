"""Edit -> verdict on the emulator, every cache missed: compile for the GPU and the emulator, all tests, resources.

    python -m benchmarks.toolchain.edit_to_verdict [--repeats 5] [--only NAME]

An elementwise kernel, a product of float32, and products on tensor cores by mma (TiledMMA) and by wgmma, each edited
anew for every repeat; compilers, torch worker and emulator are warm, as they are while a person edits. Seconds on the
clock depend on what else the machine does; processor seconds, of all processes together, hardly do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import randbits
from typing import Any, NamedTuple

from benchmarks.conditions import processor_seconds, write
from benchmarks.trials import edited
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Store

_DATA = Path(__file__).parents[2] / "tests" / "data"


class Case(NamedTuple):
    """A kernel file and its problem, a built-in one or a file."""

    kernel: Path
    problem: str


CASES: Mapping[str, Case] = {
    "elementwise": Case(_DATA / "relu.cu", "relu"),
    "fp32 product": Case(_DATA / "kernels" / "gemm_async.cu", str(_DATA / "kernels" / "gemm_fp32.py")),
    "tensor cores, mma": Case(_DATA / "kernels" / "gemm_bf16.cu", str(_DATA / "kernels" / "gemm_bf16.py")),
    "tensor cores, wgmma": Case(_DATA / "gemm_bf16_wgmma.cu", str(_DATA / "kernels" / "linear_bf16.py")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    chosen = parser.parse_args()
    device = choose_device(None)
    compiler, executor = Compiler(device.arch), CpuExecutor()
    compiler.warm()
    executor.prepare(print)
    rows = {}
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder:
        store = Store(Path(folder) / "store.db")
        for name, case in CASES.items():
            if chosen.only in (None, name):
                problem = library.load(case.problem)
                with Reference(problem, Path(folder)) as reference:
                    evaluator = Evaluator(problem, reference, executor, compiler, device, store.put)
                    rows[name] = _measure(evaluator, case.kernel.read_text(), chosen.repeats)
                _show(name, rows[name])
    compiler.close()
    write("edit_to_verdict", {"kernels": rows})


def _measure(evaluator: Evaluator, source: str, repeats: int) -> dict[str, Any]:
    samples = [_once(evaluator, source) for _ in range(repeats + 1)][1:]  # the first starts the worker and draws values
    return {
        "n": repeats,
        "median_seconds": {name: round(statistics.median(s[name] for s in samples), 3) for name in samples[0]},
        "samples_seconds": [{name: round(value, 3) for name, value in sample.items()} for sample in samples],
    }


def _once(evaluator: Evaluator, source: str) -> dict[str, float]:
    """Time an edit that nobody has seen."""
    candidate = Candidate(edited(source), Author.PERSON)
    begun, used = time.monotonic(), processor_seconds()
    trial = evaluator.evaluate(candidate, seed=randbits(31))
    seconds = time.monotonic() - begun
    assert trial.passed, trial.message
    stages = {str(result.stage).lower(): result.seconds for result in trial.stages if result.seconds}
    return {
        "total": seconds,
        "processor": processor_seconds() - used,
        "checked runs": _checked_seconds(trial),
        **stages,
    }


def _checked_seconds(trial: Trial) -> float:
    assert trial.correctness
    return sum(verdict.seconds for verdict in trial.correctness.verdicts if verdict.mode == "checked")


def _show(name: str, row: Mapping[str, Any]) -> None:
    print(f"{name:20} " + "  ".join(f"{what} {seconds:.2f} s" for what, seconds in row["median_seconds"].items()))


if __name__ == "__main__":
    main()
