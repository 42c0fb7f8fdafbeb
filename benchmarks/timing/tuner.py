"""The tuner against timing every point in full, for five kernels of the playbook; needs a GPU.

    python -m benchmarks.timing.tuner [--kernels relu,softmax] [--most-points 24] [--limit-s 150]

For each kernel:
1. Every point is compiled, and timed in heats with the defaults for as many turns as an ordinary measurement has.
2. The sweep of the workbench tunes the same kernel from the same defaults, with nothing kept from step 1 but cubins.
3. Regret: how much slower the sweep's choice is than the fastest point of step 1, by the times of step 1. Share: the
   turns of its halving in those of step 1. Model: the same regret for the first, and for the best of the first four, in
   the order of the static model, which is what a machine without a GPU has.
A kernel with more points has some parameters fixed for both. None is begun after the limit.
The file keeps the kernels of earlier runs; `tuner_simulated` reads it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import randbits
from statistics import median
from typing import Any

from benchmarks.conditions import RESULTS, conditions, write
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.evaluate.sweep import MOST_TIMED, SweepTable, sweep
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.evaluate.tuning.builds import Builds
from cutegen_core.evaluate.tuning.halving import FULL_TURNS
from cutegen_core.evaluate.tuning.heats import Heats
from cutegen_core.evaluate.tuning.points import compiled_cost, find_points
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import WorkloadRole

KERNELS = {
    "relu": "tuned", "matmul_square": "multistage", "layernorm": "registers", "per_token_quant_fp8": "registers",
    "softmax": "tuned",
}  # fmt: skip
"""Problem -> the playbook's kernel for it."""


class Narrator(SilentWatch):
    """Shows what the sweep says."""

    def say(self, text: str) -> None:
        print(f"    {text}", flush=True)


def compare(evaluator: CandidateEvaluator, source: str) -> dict[str, Any]:
    """Time every point of a kernel in full, and tune it; return both."""
    begun = time.monotonic()
    points, took = time_everything(evaluator, source)
    full_s = time.monotonic() - begun
    table, _ = sweep(evaluator, Candidate(source, Author.PLAYBOOK), randbits(31), Narrator())
    chosen = dict(table.rows[table.chosen].params)
    us = {row["point"]: row["us"] for row in points if row["us"]}
    best = min(us.values())
    by_model = [us[row["point"]] for row in sorted(points, key=lambda row: row["cost"]) if row["us"]]
    return {
        "points": points,
        "chosen": chosen,
        "regret": us[_key(chosen)] / best - 1.0,
        "share": table.turns / took,
        "defaults": points[0]["us"] / best - 1.0,
        "model_first": by_model[0] / best - 1.0,
        "model_best_of_4": min(by_model[:4]) / best - 1.0,
        "full_seconds": round(full_s, 1),
        "sweep_seconds": round(time.monotonic() - begun - full_s, 1),
        "rounds": _rounds(table),
        "conditions": conditions(),
    }


def time_everything(evaluator: CandidateEvaluator, source: str) -> tuple[list[dict[str, Any]], int]:
    """Return every point with its time, the defaults first, and the turns that this took."""
    points = find_points(parse(source), evaluator, MOST_TIMED).kept
    with Builds(evaluator, points, SilentWatch()) as builds:

        def run(heat: Sequence[int], turns: int) -> Sequence[RaceResult]:
            built = {str(i): builds.of(i) for i in heat}
            ready = {name: point for name, point in built.items() if isinstance(point, CompiledPoint)}
            return evaluator.race(ready, turns, seed=randbits(31), watch=SilentWatch())

        heats = Heats(run, anchor=0)
        ratios = heats.measure(range(len(points)), FULL_TURNS)
        rows = []
        for index, point in enumerate(points):
            built = builds.of(index)
            known = isinstance(built, CompiledPoint)
            rows.append({
                "point": _key(point.params),
                "us": median(heats.anchor_us) * median(ratios[index]) if index in ratios else None,
                "cost": compiled_cost(point, built.resources.kernels, evaluator) if known else point.cost,
                "samples": [round(ratio, 5) for ratio in ratios.get(index, ())],
            })  # fmt: skip
    return rows, heats.turns


def narrow(source: str, most: int) -> str:
    """Return the kernel with parameters fixed at their defaults, the last ones first, until few choices remain."""
    for parameter in reversed(parse(source).params):
        if parse(source).count_choices() > most and parameter.tunable:
            pattern = rf"^({parameter.name}\s*=\s*)\{{.*?\}}"
            source = re.sub(pattern, rf"\g<1>{str(parameter.default).lower()}", source, count=1, flags=re.MULTILINE)
    return source


def _rounds(table: SweepTable) -> list[int]:
    """Return how many points each round had."""
    lengths = [len(row.raced_us) for row in table.rows]
    return [sum(length > number for length in lengths) for number in range(max(lengths))]


def _key(params: object) -> str:
    return json.dumps(params)


def measure(name: str, variant: str, most_points: int) -> dict[str, Any]:
    """Compare for one problem of the catalogue on the GPU of this machine."""
    from cutegen_core.execute.executors.gpu import GpuExecutor  # it needs the driver

    problem, device = library.load(name), choose_device()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-bench-"))
        reference, compiler, executor = Reference(problem, Path(scratch)), Compiler(device.arch), GpuExecutor()
        for close in (reference.close, compiler.close, executor.close):
            stack.callback(close)
        timer = stack.enter_context(Timer(reference, device))
        evaluator = Evaluator(problem, reference, executor, compiler, device, content_key, timer)
        workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
        graph, signature = reference.graph(workload), reference.signature(workload)
        written = playbook.propose(graph, signature, problem.name, playbook.Target.of(device, problem))
        return compare(evaluator, narrow(next(v.source for v in written if v.name == variant), most_points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--most-points", type=int, default=24)
    parser.add_argument("--limit-s", type=float, default=150.0)
    chosen = parser.parse_args()
    begun, path = time.monotonic(), RESULTS / "tuner_h200.json"
    rows: dict[str, Any] = json.loads(path.read_text())["kernels"] if path.exists() else {}
    for name in chosen.kernels.split(","):
        if time.monotonic() - begun > chosen.limit_s:
            print(f"{name}: not begun, the limit is reached", file=sys.stderr)
            continue
        print(name, flush=True)
        rows[name] = measure(name, KERNELS[name], chosen.most_points)
        write("tuner_h200", {"kernels": rows})
    print(f"{'kernel':22} points regret  share defaults model's 1st best of 4  full s sweep s  rounds")
    for name, row in rows.items():
        print(
            f"{name:22} {len(row['points']):6} {row['regret']:6.2%} {row['share']:6.1%} {row['defaults']:8.1%} "
            f"{row['model_first']:11.1%} {row['model_best_of_4']:9.1%} {row['full_seconds']:7} "
            f"{row['sweep_seconds']:7}  {row['rounds']}"
        )


if __name__ == "__main__":
    main()
