"""Epochs of GraphSAGE whose gradients are added up in one order, on a GPU: how fast, and the same from run to run.

    python -m benchmarks.gnn.gradient [--rounds 3] [--precisions fp32 tf32] [--budget-s 90]

The playbook's kernels are compiled for this device and plugged in without a session. Features lie on the device, as in
`benchmarks.gnn.epoch`, whose graph and model these are. In turns, each with a model of its own that begins with the
same weights and is given the same batches:

* kernels, in one order: gather_mean and the gradient over transposed rows, which the loader's threads prepare; twice,
  so that the losses of both can be compared bit for bit.
* kernels, atomics: gather_mean and the gradient that adds up in no fixed order; twice, too.
* embedding_bag: torch's best aggregation. K is its epoch over the contestant's.

`results/gnn_gradient.json` has every epoch. `--device cpu --nodes 3000` tries it without a GPU, with torch's own
operations in place of the kernels, and writes nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from benchmarks import conditions
from benchmarks.gnn.kernels import GatherBench, Sweep
from cutegen_core.operators import GatherMean
from cutegen_core.records.gnn import (
    ComputeType,
    EpochReport,
    Gradient,
    GraphSettings,
    PipelineMode,
    Place,
    RunResult,
    RunSettings,
    Task,
)
from cutegen_core.workloads.gnn.aggregate import ChosenAggregate, choose_aggregate
from cutegen_core.workloads.gnn.data.open import open_graph
from cutegen_core.workloads.gnn.graph import GraphData
from cutegen_core.workloads.gnn.reporting import Reporter
from cutegen_core.workloads.gnn.stopping import StopRequest
from cutegen_core.workloads.gnn.training.bench import compare, make_contestant
from cutegen_core.workloads.gnn.training.fixing import fix_sizes
from cutegen_core.workloads.gnn.training.ranks import Ranks
from cutegen_core.workloads.gnn.training.run import GnnRun, open_run

FORWARD: Sweep = {"packed": [{}]}
GRADIENTS: dict[str, tuple[str, Sweep]] = {
    "kernels, in one order": ("gather_mean_backward_deterministic", {"persistent": [{}]}),
    "kernels, atomics": ("gather_mean_backward", {"balanced": [{}]}),
}
TORCHS = "embedding_bag"


def plugged(compilers: int) -> list[ChosenAggregate]:
    """Return the playbook's kernels, compiled for this device; each pair under two names."""
    bench = GatherBench(torch.device("cuda"), 1, compilers=compilers)
    try:
        with ThreadPoolExecutor(3) as pool:
            asked = [("gather_mean", FORWARD), *GRADIENTS.values()]
            sources = [next(iter(made.values())) for made in pool.map(lambda one: bench.sources(*one), asked)]
        forward, *backwards = sources
        found = []
        for name, backward in zip(GRADIENTS, backwards, strict=True):
            found += [_chosen(f"{name}{again}", GatherMean(forward, backward)) for again in ("", ", again")]
        return found
    finally:
        bench.close()


def _chosen(name: str, kernel: GatherMean) -> ChosenAggregate:
    return ChosenAggregate(name, kernel, kernel.note, kernel.dtype, kernel.ordered)


def torchs_own() -> list[ChosenAggregate]:
    """Return what stands in for the kernels without a GPU."""
    gradients = (Gradient.DETERMINISTIC, Gradient.ANY)
    return [
        choose_aggregate(TORCHS, gradient)._replace(name=f"{name}{again}")
        for name, gradient in zip(GRADIENTS, gradients, strict=True)
        for again in ("", ", again")
    ]


def measure(settings: RunSettings, graph: GraphData, aggregates: Sequence[ChosenAggregate]) -> RunResult:
    run: GnnRun = open_run(settings, graph, aggregates[0], Ranks(), Reporter(sys.stderr), StopRequest())
    fix_sizes(run)
    contestants = [make_contestant(run, one, PipelineMode.PIPELINED) for one in aggregates]
    return compare(run, contestants)


def rows(result: RunResult) -> list[dict[str, Any]]:
    """Return a row for each contestant."""
    by_name: dict[str, list[EpochReport]] = {}
    for report in result.epochs:
        by_name.setdefault(report.aggregate, []).append(report)
    torch_s = next(one.epoch_s for one in result.aggregates if one.aggregate == TORCHS)
    found = []
    for one in result.aggregates:
        reports = by_name[one.aggregate]
        again = by_name.get(f"{one.aggregate}, again", [])
        found.append({
            "precision": result.settings.precision, "aggregate": one.aggregate, "epoch_s": round(one.epoch_s, 4),
            "epochs_s": [round(report.seconds, 4) for report in reports],
            "compute_only_s": round(one.compute_only_s, 4), "share": one.share and round(one.share, 4),
            "P": round(statistics.median(report.over_longest_stage for report in reports), 3),
            "K": round(torch_s / one.epoch_s, 3), "captured": [report.captured for report in reports],
            "prepare_s_a_thread": round(statistics.median(r.times.prepare / r.times.threads for r in reports), 4),
            "losses": [report.loss for report in reports],
            "losses_same_again": [a.loss == b.loss for a, b in zip(reports, again, strict=True)] if again else None,
        })  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", nargs="+", type=ComputeType, default=[ComputeType.FP32, ComputeType.TF32])
    parser.add_argument("--budget-s", type=float, default=90.0, help="no other precision begins that would end later")
    parser.add_argument("--compilers", type=int, default=4)
    given = parser.parse_args()
    started, on_gpu = time.monotonic(), given.device == "cuda"
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_graph, GraphSettings("power-law", given.nodes, 22, 16, 128))
        kernels = plugged(given.compilers) if on_gpu else torchs_own()
        graph = opening.result()
    print(f"compiled and generated after {time.monotonic() - started:.0f} s", flush=True)
    table, machine = [], {}
    took = 0.0
    for precision in given.precisions:
        began = time.monotonic()
        if began - started + took > given.budget_s:
            print(f"{precision}: no time left")
            continue
        settings = RunSettings(
            task=Task.BENCH, device=given.device, features=Place.DEVICE, precision=precision, epochs=given.rounds
        )
        result = measure(settings, graph, [*kernels, choose_aggregate(TORCHS)])
        machine, took = result.machine, time.monotonic() - began
        for row in rows(result):
            table.append(row)
            print({name: value for name, value in row.items() if name not in ("losses", "epochs_s")}, flush=True)
        print(
            f"after {time.monotonic() - started:.0f} s; {result.machine['steps']}", *result.notes, sep="\n", flush=True
        )
    if on_gpu:
        conditions.write(
            "gnn_gradient", {"machine": machine, "graph": f"power law, {given.nodes} nodes", "rows": table}
        )


if __name__ == "__main__":
    main()
