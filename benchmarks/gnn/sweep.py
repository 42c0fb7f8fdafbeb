"""The gather kernels on the GPU of this machine with other parameters, beside torch's best: what a tuner chooses from.

    python -m benchmarks.gnn.sweep [--only gather_mean ...] [--samples 15] [--budget-s 90] [--compilers 14]

As `benchmarks.gnn.kernels`, whose contenders, checks and turns these are, with several choices of each kernel's
parameters, compiled several at once. The result file has every median. Without a GPU two small workloads go
the same way on the emulator, and nothing is written.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from benchmarks.conditions import write
from benchmarks.gnn.kernels import GatherBench, Sweep, show


class Swept(NamedTuple):
    """What of a problem is measured: choices by level, and names of workloads (all where empty)."""

    sweep: Sweep
    workloads: Sequence[str] = ()


_MEAN: Sweep = {
    "packed": [
        {},
        {"BLOCK": 64},
        {"BLOCK": 256},
        {"RESIDENT": 1536, "BLOCK": 256},
        {"UNROLL": 4, "RESIDENT": 1024, "BLOCK": 256},
        {"UNROLL": 4, "RESIDENT": 1024, "BLOCK": 128},
        {"UNROLL": 4, "RESIDENT": 1536, "BLOCK": 128},
    ],
    "persistent": [{}],
}
_LAYERS = ("layer 1", "layer 2", "layer 1, power law")
_GRADIENTS: Mapping[str, Sweep] = {
    "gather_mean_backward": {"balanced": [{}]},
    "gather_mean_backward_deterministic": {"persistent": [{}]},
}
SWEPT: Mapping[str, Swept] = {
    "sage_layer": Swept(
        {
            "multistage": [{}, {"BK": 8}],
            "3xTF32": [
                {},
                {"STAGES": 2},
                {"STAGES": 4},
                {"BK": 16, "STAGES": 4},
                {"BN": 64, "ACROSS": 2},
                {"BM": 64, "DOWN": 1},
                {"DOWN": 4, "ACROSS": 2},
            ],
        },
        ("layer 1", "layer 2"),
    ),
    "gather_mean": Swept(_MEAN, _LAYERS),
    "gather_mean_backward_deterministic": Swept(
        {
            "packed": [{"BLOCK": 128}],
            "persistent": [{}, {"BLOCKS": 4}, {"UNROLL": 1}, {"BLOCK": 128}, {"BLOCK": 128, "UNROLL": 4}],
        },
        _LAYERS[:2],
    ),
    "gather_mean_fp16": Swept({"packed": [{}, {"BLOCK": 128}], "persistent": [{}]}, _LAYERS[:2]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SWEPT, default=list(SWEPT))
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--budget-s", type=float, default=90.0, help="no workload begins after this")
    parser.add_argument("--name", default="gnn_sweep", help="of the result file")
    parser.add_argument("--compilers", type=int, default=14)
    given = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cuda" if on_gpu else "cpu")
    started = time.monotonic()
    bench = GatherBench(
        device, given.samples, compilers=given.compilers, inductor=("sage_layer",), both_ways=_GRADIENTS
    )
    rows: list[dict[str, Any]] = []
    try:
        for row in (row for name in given.only for row in bench.problem(name, *SWEPT[name])):
            rows.append(row | {"after_s": round(time.monotonic() - started, 1)})
            show(row)
            if time.monotonic() - started > given.budget_s:
                print("no time left")
                break
    finally:
        bench.close()
    if on_gpu:
        write(given.name, {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})


if __name__ == "__main__":
    main()
