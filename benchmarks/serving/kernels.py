"""The serving problems on the GPU of this machine: existing kernel, playbook, sweep, eager, torch.compile, per shape.

    python -m benchmarks.serving.kernels [--only silu_and_mul ...] [--phases tuned baselines ...] [--budget-s 540]

1. tuned: the playbook's last kernel of every problem through the evaluator over all benchmark workloads, timed in turns
   with the existing kernel.
2. baselines: the same kernel with eager and torch.compile, and a second process.
3. variants: the playbook's other kernels, alone.
4. sweep: the last kernel with each value of each of its parameters, one changed at a time.

Each trial is a row of `results/serving_h200.jsonl` before the next one begins; the same command goes on where it
stopped, and a changed kernel is measured again. `results/serving_h200.json` has the table: microseconds of device time
with a cold L2, launch included, the floor, and, if `serving_trace` was run before, the kernels' own durations, beside
Astra's, which are such. `--executor cpu` goes the same way without times, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.conditions import RESULTS, Rows, write
from benchmarks.trials import open_evaluator
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.evaluate.sweep import with_params
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.performance import BEST, CANDIDATE, COMPILED, COMPULSORY, EAGER, WorkloadPerformance
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.trial import ExecutorKind, Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

Row = dict[str, Any]
PHASES = ("tuned", "baselines", "variants", "sweep")
SEED = 20_261_122
EXISTING = "existing"
FLOOR_BYTES_PER_S = 4.2e12
ASTRA: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "silu_and_mul": {
        "16 x 4096": (16.8, 1.7), "32 x 5120": (20.9, 1.9), "32 x 8192": (31.3, 2.2), "16 x 12288": (47.8, 2.0),
        "64 x 8192": (31.6, 2.8), "4096 x 8192": (494.9, 74.2),
    },
    "fused_add_rmsnorm": {
        "128 x 4096": (8.1, 4.8), "256 x 4096": (9.3, 6.2), "1024 x 4096": (24.9, 19.7), "2048 x 8192": (88.0, 64.4),
        "128 x 11008": (16.9, 8.9), "512 x 14336": (41.6, 31.0), "1024 x 8192": (49.2, 36.1),
    },
    "merge_attn_states_lse": {
        "512 x 32 x 256": (41.1, 18.6), "512 x 40 x 128": (26.3, 14.2), "768 x 32 x 256": (60.8, 26.8),
        "768 x 40 x 128": (38.7, 20.4), "512 x 64 x 128": (41.1, 21.6),
    },
}  # fmt: skip
"""Its public kernels (arXiv 2509.07506), re-run on one H200 (torch 2.11, CUDA 13.0): baseline and optimised version, µs
of device time from a profiler trace, cold L2."""


@dataclass(frozen=True)
class ServingTrial:
    """One trial: a kernel of a problem, and what is timed beside it."""

    problem: str
    phase: str
    kernel: str
    candidate: Candidate

    @property
    def key(self) -> str:
        return f"{self.problem}/{self.phase}/{self.kernel}/{self.candidate.key[:12]}"


class Bench:
    """The evaluators of all problems, and the rows so far."""

    def __init__(self, folder: Path, executor: str, problems: Sequence[Problem]) -> None:
        self._store = Store(folder / "store.db")
        self._tools = Tools(self._store)
        self._executor = ExecutorKind(executor)
        self.problems = {problem.name: problem for problem in problems}
        self._evaluators: dict[str, Evaluator] = {}
        self.rows = Rows((RESULTS if executor == "gpu" else folder) / "serving_h200.jsonl")

    def evaluator(self, name: str) -> Evaluator:
        if name not in self._evaluators:
            self._evaluators[name] = open_evaluator(self._store, self._tools, self.problems[name], self._executor)
        return self._evaluators[name]

    def jobs(self, phases: Sequence[str]) -> Iterator[ServingTrial]:
        """Yield what is to be tried: a phase after the other, and in it one problem after the other."""
        for phase in phases:
            for name in self.problems:
                for kernel, source in self._kernels(name, phase):
                    yield ServingTrial(name, phase, kernel, Candidate(source, Author.PLAYBOOK))

    def _kernels(self, name: str, phase: str) -> Iterator[tuple[str, str]]:
        variants = self._variants(name)
        if not variants:
            return
        last = variants[-1]
        if phase == "variants":
            yield from ((v.name, v.source) for v in reversed(variants[:-1]))
        elif phase in ("tuned", "baselines"):
            yield last.name, last.source
        else:
            kernel = parse(last.source)
            for parameter in kernel.params:
                for value in parameter.values:
                    if value != parameter.default:
                        yield f"{last.name}, {parameter.name} = {value}", with_params(kernel, {parameter.name: value})

    def _variants(self, name: str) -> tuple[playbook.Variant, ...]:
        evaluator, problem = self.evaluator(name), self.problems[name]
        workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
        try:
            target = playbook.Target.of(evaluator.device, problem)
            return playbook.propose(evaluator.graph(workload), evaluator.signature(workload), name, target)
        except playbook.NotInPlaybook as reason:
            print(f"{name}: {reason}", flush=True)
            return ()

    def run(self, job: ServingTrial) -> Row:
        """Take one kernel through the stages; a sweep judges only the smallest sizes besides those it times."""
        evaluator, problem = self.evaluator(job.problem), self.problems[job.problem]
        existing = Candidate(problem.existing, Author.IMPORT) if job.phase == "tuned" else None
        if job.phase == "sweep":
            small = problem.with_role(WorkloadRole.EMULATOR)[:1]
            problem = replace(problem, workloads=(*small, *problem.with_role(WorkloadRole.BENCHMARK)))
            evaluator = replace(evaluator, problem=problem)
        begun = time.monotonic()
        trial = evaluator.evaluate(job.candidate, seed=SEED, best=existing, rough=job.phase != "baselines")
        return {
            "key": job.key, "problem": job.problem, "phase": job.phase, "kernel": job.kernel,
            "status": trial.status, "message": trial.message, "seconds": round(time.monotonic() - begun, 1),
            "marks": list(trial.marks), "shapes": dict(map(_shape, _workloads(trial))),
            "registers": {k.kernel: k.registers for k in trial.resources.kernels} if trial.resources else {},
        }  # fmt: skip

    def close(self) -> None:
        self._tools.close()
        self._store.close()


def _workloads(trial: Trial) -> Sequence[WorkloadPerformance]:
    return trial.performance.workloads if trial.performance else ()


def _shape(measured: WorkloadPerformance) -> tuple[str, Row]:
    names = {CANDIDATE: "us", BEST: EXISTING}
    times = {
        names.get(t.contender, t.contender): {
            "us": round(t.median_us, 3), "p10": round(t.p10_us, 3), "p90": round(t.p90_us, 3),
            "noise": round(t.noise, 4), "n": t.n, "method": t.method,
        }
        for t in measured.timings
    }  # fmt: skip
    bound = measured.bound(COMPULSORY)
    return measured.workload, {
        "times": times, "bound_us": round(bound.us, 3) if bound else None,
        "untimed": {u.contender: u.reason for u in measured.untimed}, "clock_mhz": measured.conditions.sm_clock_mhz,
    }  # fmt: skip


def table(bench: Bench, keys: set[str]) -> Mapping[str, Any]:
    """Return problem -> shape -> times, from the rows of today's kernels."""
    rows = [row for key, row in bench.rows.by_key.items() if key in keys]
    return {
        name: {w.name: _line(bench, name, w.name, rows) for w in problem.with_role(WorkloadRole.BENCHMARK)}
        for name, problem in bench.problems.items()
    }


def _line(bench: Bench, name: str, shape: str, rows: Sequence[Row]) -> Row:
    own = [row for row in rows if row["problem"] == name and shape in row["shapes"]]
    kernels: dict[str, float] = {}
    beside: dict[str, float] = {}
    bounds: list[float] = []
    for row in own:
        found = row["shapes"][shape]
        bounds += [found["bound_us"]] if found["bound_us"] else []
        kernels.setdefault(row["kernel"], found["times"]["us"]["us"])
        for other in (EXISTING, EAGER, COMPILED):
            if other in found["times"]:
                beside.setdefault(other, found["times"][other]["us"])
    floor = _floor_us(bench, name, shape)
    line: Row = {"floor_us": round(floor, 2), "bound_us": bounds[0] if bounds else None, **beside, "kernels": kernels}
    last = next((row["kernel"] for row in own if row["phase"] == "tuned"), "")
    line["kernel_alone"] = _traced(name, shape)
    base, best = ASTRA.get(name, {}).get(shape, (None, None))
    line["astra"] = {"baseline": base, "optimised": best}
    if last in kernels:
        ours = kernels[last]
        line |= {"ours": ours, "share_of_floor": round(floor / ours, 3)}
        line |= {"over_existing": round(beside[EXISTING] / ours, 2)} if EXISTING in beside else {}
    alone = line["kernel_alone"].get("tuned")
    if best and alone:
        line |= {"over_astra": round(best / alone, 2), "share_of_floor_alone": round(floor / alone, 3)}
    return line


def _traced(name: str, shape: str) -> Mapping[str, float]:
    """Return kernel -> us of the profiler trace, of `serving_trace`."""
    path = RESULTS / "serving_trace.json"
    traced = json.loads(path.read_text())["table"] if path.exists() else {}
    found: Mapping[str, float] = traced.get(name, {}).get(shape, {}).get("kernels", {})
    return found


def _floor_us(bench: Bench, name: str, shape: str) -> float:
    """Return the time of reading and writing every tensor once."""
    workload = next(w for w in bench.problems[name].workloads if w.name == shape)
    return bench.evaluator(name).signature(workload).nbytes / FLOOR_BYTES_PER_S * 1e6


def show(found: Mapping[str, Any]) -> None:
    """Print a line per shape; "alone" is the kernel's own duration, as Astra's figure is."""
    heads = ("existing", "ours", "eager", "compile", "floor", "alone", "fastest", "Astra")
    print(f"{'':40}", *(f"{head:>8}" for head in heads))
    for name, shapes in found.items():
        for shape, line in shapes.items():
            alone = {k: us for k, us in line["kernel_alone"].items() if k not in (EXISTING, EAGER)}
            fastest = min(alone.items(), key=lambda one: one[1], default=("", None))
            times = (line.get(EXISTING), line.get("ours"), line.get(EAGER), line.get(COMPILED), line["floor_us"],
                     alone.get("tuned"), fastest[1], line["astra"]["optimised"])  # fmt: skip
            print(f"{name + ' ' + shape:40}", *(f"{us:8.2f}" if us else f"{'':8}" for us in times), f"  {fastest[0]}")


def main() -> int:
    asked = _arguments()
    problems = [p for p in library.catalogue() if p.existing and (not asked.only or p.name in asked.only)]
    deadline, keys, failed = time.monotonic() + asked.budget_s, set(), 0
    with tempfile.TemporaryDirectory(prefix="cutegen-serving-") as folder:
        bench = Bench(Path(folder), asked.executor, problems)
        try:
            device = choose_device(None)
            if asked.executor == "gpu" and peaks.load(device) is None:
                peaks.measure(device, lambda line: print(line, flush=True))
            for job in bench.jobs(asked.phases):
                keys.add(job.key)
                if job.key in bench.rows.by_key or time.monotonic() > deadline:
                    continue
                try:
                    row = bench.run(job)
                except CutegenError as error:  # no row: tried again next time
                    print(f"{job.key}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                    continue
                bench.rows.add(row)
                failed += row["status"] != "PASSED"
                times = ", ".join(f"{s} {t['times']['us']['us']:.2f}" for s, t in row["shapes"].items())
                print(
                    f"{row['seconds']:6.1f} s  {row['status']}  {job.key}: {times} {row['message'][:200]}", flush=True
                )
            keys |= {job.key for job in bench.jobs(PHASES)}
            found = table(bench, keys)
            left = sum(job.key not in bench.rows.by_key for job in bench.jobs(asked.phases))
        finally:
            bench.close()
    show(found)
    rows = [row for key, row in bench.rows.by_key.items() if key in keys]
    if asked.executor == "gpu":
        write("serving_h200", {"device": asdict(device), "table": found, "rows": rows})
    print(f"{left} trials left; run the same command again" if left else "complete")
    return int(failed > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="problems, by name")
    parser.add_argument("--phases", nargs="*", choices=PHASES, default=list(PHASES))
    parser.add_argument("--budget-s", type=float, default=540.0, help="begin no further trial after this time")
    parser.add_argument("--executor", choices=("gpu", "cpu"), default="gpu")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
