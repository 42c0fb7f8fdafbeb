"""Runs of the GNN workload on small graphs: in this process, or as the process that users start."""

import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from cutegen_core.records import as_json
from cutegen_core.records.gnn import EpochReport, GraphSettings, RunProgress, RunResult, RunSettings

SMALL = RunSettings(
    graph=GraphSettings(nodes=1200, degree=12, width=16, classes=4), hidden=16, fanouts=(8, 4),
    inference_fanouts=(8, 4), batch_size=128, epochs=2, learning_rate=0.01, threads=1,
)  # fmt: skip


@cache
def graph_of(settings):
    from cutegen_core.workloads.gnn.data.open import open_graph

    return open_graph(settings)


def open_small(on=None, **changes):
    """Return a run in this process, alone, on one torch thread."""
    import torch

    from cutegen_core.workloads.gnn.aggregate import choose_aggregate
    from cutegen_core.workloads.gnn.reporting import Reporter
    from cutegen_core.workloads.gnn.stopping import StopRequest
    from cutegen_core.workloads.gnn.training.ranks import Ranks
    from cutegen_core.workloads.gnn.training.run import open_run
    from cutegen_core.workloads.gnn.training.settings import check_settings

    torch.set_num_threads(1)
    settings = replace(SMALL, **changes)
    check_settings(settings)
    graph = on or graph_of(settings.graph)
    aggregate = choose_aggregate(settings.aggregate, settings.gradient)
    return open_run(settings, graph, aggregate, Ranks(), Reporter(io.StringIO()), StopRequest())


def train_small(on=None, **changes):
    from cutegen_core.workloads.gnn.training.train import train

    return train(open_small(on, **changes))


def losses(result):
    return [report.loss for report in result.epochs]


@contextmanager
def started(folder, settings, **environment):
    """Yield the process; killed with everything it started at the end of the block."""
    path = folder / "settings.json"
    path.write_text(settings if isinstance(settings, str) else as_json.dump(settings))
    command = [sys.executable, "-m", "cutegen_core.workloads.gnn", "--settings", str(path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", **environment}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


_KINDS = {"progress": RunProgress, "report": EpochReport, "result": RunResult}


def read(line):
    """Return a line's kind and its record; an error's text."""
    ((kind, value),) = json.loads(line).items()
    return kind, as_json.load(_KINDS[kind], json.dumps(value)) if kind in _KINDS else value


def ended(process, timeout=120):
    """Return what the process wrote until it ended, and its exit code."""
    out, _ = process.communicate(timeout=timeout)
    return [read(line) for line in out.splitlines()], process.returncode


def epochs_of(lines):
    """Return the reports among them by epoch."""
    return {record.epoch: record for kind, record in lines if kind == "report"}


def wait_for(process, kind, count=1, told=None):
    """Read lines up to the n-th of a kind; its record. The reports of epochs go to `told`."""
    for line in process.stdout:
        found, record = read(line)
        if told is not None:
            told |= epochs_of([(found, record)])
        count -= found == kind
        if not count:
            return record
    raise AssertionError(f"no {kind}: {process.stderr.read()}")
