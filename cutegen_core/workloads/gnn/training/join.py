"""Join the ranks of a run: alone, as a child of a run (`launch.py`), or under torchrun.

On GPUs the first rank of a machine holds the locks of all GPUs of that machine, in one order for all runs, before any
rank can pass the rendezvous. So two runs never wait for each other's GPUs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed

from cutegen_core.execute.cuda import lock
from cutegen_core.machine.device import detect_all
from cutegen_core.machine.parent import exit_when_closed
from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import RunSettings
from cutegen_core.workloads.gnn.training.devices import require_gpu
from cutegen_core.workloads.gnn.training.launch import PARENT, RENDEZVOUS
from cutegen_core.workloads.gnn.training.ranks import Ranks

_LOCK_S = 600.0
_EXCHANGE_TIMEOUT = timedelta(minutes=30)


@contextlib.contextmanager
def join_ranks(settings: RunSettings) -> Iterator[Ranks]:
    """Hold the GPUs and the connection to the other ranks while the block runs.

    Raises:
        UsageError: torchrun started another number of processes than `ranks`, or there is no GPU for this one.
        MachineError: a GPU is in use for longer than ten minutes.
    """
    environment = os.environ
    ranks = Ranks()
    local_world = 1
    if "RANK" in environment:
        ranks = Ranks(int(environment["RANK"]), int(environment["WORLD_SIZE"]), int(environment.get("LOCAL_RANK", "0")))
        local_world = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if ranks.world != settings.ranks:
        raise UsageError(f"ranks is {settings.ranks}, but {ranks.world} processes were started. Make them equal.")
    if PARENT in environment:
        exit_when_closed(int(environment[PARENT]))
    if settings.device == "cuda":
        require_gpu(ranks.local)
    with contextlib.ExitStack() as held:
        if settings.device == "cuda" and ranks.local == 0:
            _hold_gpus(held, local_world)
        if ranks.world > 1:
            _connect(settings, ranks, local_world)
            held.callback(torch.distributed.destroy_process_group)
        yield ranks


def _hold_gpus(held: contextlib.ExitStack, count: int) -> None:
    for uuid in sorted(device.uuid for device in detect_all()[:count]):
        held.enter_context(lock.hold(uuid, "GNN training", _LOCK_S))


def _connect(settings: RunSettings, ranks: Ranks, local_world: int) -> None:
    on_gpu = settings.device == "cuda"
    if not on_gpu:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_world))
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=os.environ.get(RENDEZVOUS, "env://"), rank=ranks.rank,
        world_size=ranks.world, timeout=_EXCHANGE_TIMEOUT,
        device_id=torch.device("cuda", ranks.local) if on_gpu else None,
    )  # fmt: skip
