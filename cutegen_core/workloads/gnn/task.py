"""Do what a run's settings ask, in this process: as one rank of several, or alone."""

from __future__ import annotations

from cutegen_core.records.gnn import RunProgress, RunResult, RunSettings, Task
from cutegen_core.workloads.gnn.aggregate import choose_aggregate
from cutegen_core.workloads.gnn.data.open import open_graph
from cutegen_core.workloads.gnn.reporting import Reporter
from cutegen_core.workloads.gnn.stopping import StopRequest
from cutegen_core.workloads.gnn.training.bench import bench
from cutegen_core.workloads.gnn.training.infer import infer
from cutegen_core.workloads.gnn.training.join import join_ranks
from cutegen_core.workloads.gnn.training.run import open_run
from cutegen_core.workloads.gnn.training.train import train

_TASKS = {Task.TRAIN: train, Task.INFER: infer, Task.BENCH: bench}


def run_task(settings: RunSettings, reporter: Reporter, stop: StopRequest) -> RunResult:
    """Return the run's result.

    Raises:
        UsageError: the aggregate, the graph or the checkpoint does not fit.
        StoppedError: the run was asked to end.
    """
    with join_ranks(settings) as ranks:
        reporter.quiet = not ranks.first
        aggregate = choose_aggregate(settings.aggregate, settings.gradient)
        reporter.progress(RunProgress("opening the graph"), at_once=True)
        graph = open_graph(settings.graph)
        stop.check()
        return _TASKS[settings.task](open_run(settings, graph, aggregate, ranks, reporter, stop))
