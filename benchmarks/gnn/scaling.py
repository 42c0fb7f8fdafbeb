"""Epochs of training on one GPU and on several, at the same global batch: a table and a JSON file.

`python -m benchmarks.gnn.scaling [--ranks 1 2]` on a machine with as many GPUs. The graph is large enough that half a
batch needs little more than half of the neighbours: on a small one the batches of two ranks share most of them, and
each rank works on more than half.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks import conditions
from benchmarks.gnn.epoch import measure, show, waited
from cutegen_core.records import as_json
from cutegen_core.records.gnn import TORCH_AGGREGATES, GraphSettings, Place, RunSettings, Task

EPOCHS = 4
"""The first warms up."""


def rows(settings: RunSettings, ranks: list[int]) -> Iterator[dict[str, Any]]:
    first = 0.0
    for count in ranks:
        result = measure(replace(settings, ranks=count))
        reports = result.epochs[1:]
        seconds = statistics.median(report.seconds for report in reports)
        first = first or seconds * count
        yield {
            "ranks": count,
            "epoch s": seconds,
            "times one": first / ranks[0] / seconds,
            "compute s": statistics.median(report.times.compute for report in reports),
            "waits s": statistics.median(waited(report) for report in reports),
            "P": statistics.median(report.over_longest_stage for report in reports),
            "loss": result.epochs[-1].loss,
            "accuracy": result.sampled_accuracy,
            "machine": result.machine,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--aggregate", default=TORCH_AGGREGATES[0])
    parser.add_argument("--name", default="gnn_scaling", help="of the result file")
    given = parser.parse_args()
    settings = RunSettings(
        task=Task.TRAIN, graph=GraphSettings("blocks", given.nodes, 22, 16, 64), device=given.device,
        aggregate=given.aggregate, epochs=EPOCHS, features=Place.DEVICE, batch_size=4096, inference_fanouts=(5, 5, 5),
    )  # fmt: skip
    table = list(rows(settings, given.ranks))
    show([{name: value for name, value in row.items() if name != "machine"} for row in table])
    conditions.write(given.name, {"settings": as_json.to_plain(settings), "rows": table})


if __name__ == "__main__":
    main()
