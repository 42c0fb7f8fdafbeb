"""Epoch times of GraphSAGE by aggregate, mode and place of the features: a table and a JSON file.

`python -m benchmarks.gnn.epoch` on a machine with GPUs; `--device cpu --nodes 20000 --name trial` tries it without.
`--kernel kernel:SESSION.STEP` adds a plugged kernel; `gnn.scaling` measures several GPUs. A place and a precision are a
run, in which aggregates and modes take turns:

* P: epoch over its longest stage. C: epoch over compute only. serial: the serial epoch over the pipelined one.
* share: of compute only, what the aggregate takes. bound: what an aggregate that takes no time would give (Amdahl).
* K: the epoch with the best torch aggregate over that with the plugged kernel.
* captured: of an epoch's steps, the share that was replayed from a CUDA graph; `--steps eager` measures without.
* wait: of an epoch, the share in which the device had nothing to do but wait for preparation or transfer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import conditions
from cutegen_core.records import as_json
from cutegen_core.records.gnn import (
    KERNEL_PREFIX,
    TORCH_AGGREGATES,
    AggregateTimes,
    ComputeType,
    EpochReport,
    GraphSettings,
    PipelineMode,
    Place,
    RunResult,
    RunSettings,
    Steps,
    Task,
)

_HEAD = (
    "features",
    "precision",
    "aggregate",
    "epoch s",
    "compute s",
    "P",
    "C",
    "serial",
    "share",
    "bound",
    "K",
    "captured",
    "wait",
)


def measure(settings: RunSettings) -> RunResult:
    """Return the result of a run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_text(as_json.dump(settings))
        command = [sys.executable, "-m", "cutegen_core.workloads.gnn", "--settings", str(path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    ((kind, value),) = json.loads(done.stdout.splitlines()[-1]).items()
    if kind != "result":
        raise SystemExit(f"{settings.features}, {settings.precision}: {value}")
    return as_json.load(RunResult, json.dumps(value))


def epochs(result: RunResult, aggregate: str, mode: PipelineMode) -> list[EpochReport]:
    return [one for one in result.epochs if (one.aggregate, one.mode) == (aggregate, mode)]


def rows(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield a row for each aggregate."""
    settings = result.settings
    own = settings.aggregate
    torch_s = min(one.epoch_s for one in result.aggregates if one.aggregate in TORCH_AGGREGATES)
    for one in result.aggregates:
        reports = epochs(result, one.aggregate, settings.mode)
        serial = [report.seconds for report in epochs(result, one.aggregate, PipelineMode.SERIAL)]
        yield {
            "features": settings.features,
            "precision": settings.precision,
            "aggregate": one.aggregate,
            "epoch s": one.epoch_s,
            "compute s": one.compute_only_s,
            "P": statistics.median(report.over_longest_stage for report in reports),
            "C": one.over_compute_only,
            "serial": statistics.median(serial) / one.epoch_s if serial and one.aggregate == own else None,
            "share": one.share,
            "bound": bound(one, reports),
            "K": torch_s / one.epoch_s if one.aggregate.startswith(KERNEL_PREFIX) else None,
            "captured": statistics.median(report.captured / report.batches for report in reports),
            "wait": statistics.median(waited(report) / report.seconds for report in reports),
        }


def waited(report: EpochReport) -> float:
    return report.times.waited_prepare + report.times.waited_transfer


def bound(one: AggregateTimes, reports: list[EpochReport]) -> float | None:
    """Return the epoch over what would be left of it; other stages may then be the longest."""
    if one.share is None:
        return None
    others = statistics.median(max(r.times.prepare / r.times.threads, r.times.transfer) for r in reports)
    return one.epoch_s / max(others, one.epoch_s - one.share * one.compute_only_s)


def show(table: list[dict[str, Any]]) -> None:
    for row in table:
        values = ("-" if value is None else value for value in row.values())
        cells = (f"{value:.3f}" if isinstance(value, float) else str(value) for value in values)
        print("  ".join(f"{cell:>14}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernel", default=TORCH_AGGREGATES[0], help="kernel:SESSION.STEP")
    parser.add_argument("--precisions", nargs="*", type=ComputeType, default=list(ComputeType))
    parser.add_argument("--places", nargs="+", type=Place, default=list(Place), help="of the features")
    parser.add_argument("--steps", type=Steps, default=Steps.CAPTURED)
    parser.add_argument("--name", default="gnn_epoch", help="of the result file")
    given = parser.parse_args()
    graph = GraphSettings("power-law", given.nodes, 22, 16, 128)
    settings = RunSettings(
        task=Task.BENCH,
        graph=graph,
        device=given.device,
        aggregate=given.kernel,
        epochs=given.rounds,
        steps=given.steps,
    )
    table, machine = [], {}
    print("  ".join(f"{title:>14}" for title in _HEAD))
    for features in given.places:
        for precision in given.precisions:
            result = measure(replace(settings, features=features, precision=precision))
            machine = result.machine | {"kernel": result.kernel_note}
            show(list(rows(result)))
            print(f"steps: {result.machine['steps']}", *result.notes, sep="\n", flush=True)
            table += rows(result)
    asked = as_json.to_plain(settings)
    conditions.write(given.name, {"machine": machine, "settings": asked, "epochs": table})


if __name__ == "__main__":
    main()
