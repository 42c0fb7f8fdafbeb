"""Measure the host's processor time of a training step, where a device would have next to nothing to do.

    python -m benchmarks.gnn.host [--rounds N]

The graph is tiny and torch has one thread, so that what is left is Python and torch's dispatch. A plugged kernel's own
work is replaced by an allocation of its results; its checks, plan and autograd stay. What a driver's launch costs is
not in these figures (tests/gpu/test_operators.py bounds a call with it). Adam is PyTorch's unfused one here, the fused
one on a GPU. Each figure is the least of all rounds.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.conditions import write
from cutegen_core.judge.reference import Reference
from cutegen_core.operators.gather_mean import GatherMean
from cutegen_core.operators.runner import KernelRunner
from cutegen_core.operators.source import Source, compiled
from cutegen_core.problems.library import load
from cutegen_core.propose.playbook import Target, propose
from cutegen_core.records.gnn import GraphSettings, Place, RunSettings, Task
from cutegen_core.workloads.gnn.aggregate import ChosenAggregate, choose_aggregate
from cutegen_core.workloads.gnn.data.open import open_graph
from cutegen_core.workloads.gnn.reporting import Reporter
from cutegen_core.workloads.gnn.stopping import StopRequest
from cutegen_core.workloads.gnn.training.epoch import EpochOfTraining, make_trainee
from cutegen_core.workloads.gnn.training.ranks import Ranks
from cutegen_core.workloads.gnn.training.run import GnnRun, SamplingOf, open_run

_STEPS = 24
_SETTINGS = RunSettings(
    task=Task.BENCH, graph=GraphSettings("power-law", 2000, 22, 16, 128), hidden=256, device="cpu",
    features=Place.DEVICE, fanouts=(2, 2, 2), inference_fanouts=(2, 2, 2), batch_size=8,
)  # fmt: skip


class _Planned(KernelRunner):
    """A kernel that is planned and not run: its results hold nothing."""

    def _emulate(self, closure: Any, facts: Any, numbers: Any, inputs: Any) -> list[torch.Tensor]:  # noqa: ANN401
        closure(facts, numbers)
        return [torch.zeros(fact.shape) for fact in facts[len(self.shapes.inputs) :]]


class _Mean(GatherMean):
    """An aggregation that is not compared with torch, since its kernels are not run."""

    def _try(self) -> None:
        pass


def _plugged() -> ChosenAggregate:
    forward, backward = _source("gather_mean"), _source("gather_mean_backward")
    KernelRunner._emulate = _Planned._emulate  # type: ignore[method-assign]
    return ChosenAggregate("plugged kernel", _Mean(forward, backward), "")


def _source(name: str) -> Source:
    problem = load(name)
    with (
        tempfile.TemporaryDirectory(prefix="gnn-host-") as folder,
        Reference(problem, Path(folder)) as reference,
    ):
        own = problem.workloads[0]
        found = propose(reference.graph(own), reference.signature(own), name, Target(allow=problem.allow))
        text = next(variant.source for variant in found if variant.name == "packed")
        return compiled(problem, text, "sm_90a", reference=reference)


def _least(rounds: int, work: Callable[[], None], clock: Callable[[], float], times: int) -> float:
    """Return microseconds a time."""
    best = float("inf")
    for _ in range(rounds):
        began = clock()
        work()
        best = min(best, (clock() - began) / times)
    return round(best * 1e6, 1)


def _steps(run: GnnRun, rounds: int) -> dict[str, float]:
    """Return a step alone, and a whole pass with the transfer and a loader's thread."""
    batches = [run.graph.splits.train[8 * n : 8 * n + 8] for n in range(_STEPS)]
    epoch = EpochOfTraining(run, make_trainee(run, 1), batches)
    sampling = SamplingOf(run.settings.fanouts, 1)
    with run.loader(batches, sampling, slots=_STEPS) as loader:
        flights = [run.device.send(batch) for batch in loader]

        def step_all() -> None:
            for flight in flights:
                run.device.run(flight, epoch.step)

        def send_all() -> None:
            for flight in flights:
                run.device.send(flight.batch)

        step_all()
        found = {"step": _least(rounds, step_all, time.thread_time, _STEPS)}
        found["send"] = _least(rounds, send_all, time.thread_time, _STEPS)
        for flight in flights:
            flight.batch.release()

    def through() -> None:
        run.pass_over(batches, sampling, epoch.step, lambda _: None)

    found["pass, all threads"] = _least(rounds, through, time.process_time, _STEPS)
    found["pass, trainer"] = _least(rounds, through, time.thread_time, _STEPS)
    return found


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds a batch, by aggregate."""
    torch.set_num_threads(1)
    graph = open_graph(_SETTINGS.graph)
    settings = replace(_SETTINGS, threads=1)
    return {
        aggregate.name: _steps(
            open_run(settings, graph, aggregate, Ranks(), Reporter(io.StringIO()), StopRequest()), rounds
        )
        for aggregate in (choose_aggregate("embedding_bag"), _plugged())
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    found = measure(given.rounds)
    print(json.dumps(found, indent=1))
    write("gnn_host", {"torch": torch.__version__, "rounds": given.rounds, "microseconds_a_batch": found})


if __name__ == "__main__":
    main()
