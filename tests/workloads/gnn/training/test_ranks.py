"""Ranks of data parallel training learn what one process learns, and end together."""

import os
import signal
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.execute.cuda import lock
from cutegen_core.machine.device import KNOWN
from cutegen_core.records.errors import MachineError, UsageError
from tests.later import Later
from tests.patience import SOON_S, wait_until
from tests.workloads.gnn.runs import SMALL, ended, losses, started, train_small, wait_for

torch = Later("torch")
join = Later("cutegen_core.workloads.gnn.training.join")
schedule = Later("cutegen_core.workloads.gnn.training.schedule")
checkpoint = Later("cutegen_core.workloads.gnn.training.checkpoint")

ALL_NEIGHBOURS = {"fanouts": (1000, 1000), "inference_fanouts": (1000, 1000), "dropout": 0.0, "batch_size": 101}
"""Nothing is drawn at random, so ranks and one process see the same; 600 nodes leave a last batch of 95."""


def weights(folder):
    return checkpoint.read_checkpoint(str(folder), 1).model


@pytest.mark.thorough
def test_two_ranks_learn_what_one_process_learns(tmp_path):
    """The same losses and, after two epochs of updates, the same weights: so the same gradients in every batch."""
    one, two = tmp_path / "one", tmp_path / "two"
    alone = train_small(**ALL_NEIGHBOURS, checkpoint=str(one))
    with started(tmp_path, replace(SMALL, **ALL_NEIGHBOURS, ranks=2, checkpoint=str(two))) as process:
        lines, code = ended(process)
    assert code == 0, lines
    kinds = [kind for kind, _ in lines]
    assert kinds.count("report") == 2
    assert kinds.count("result") == 1
    together = lines[-1][1]
    assert together.machine["ranks"] == "2"
    assert losses(together) == pytest.approx(losses(alone), rel=1e-5)
    assert together.accuracies == pytest.approx(alone.accuracies, abs=0.005)
    for name, values in weights(one).items():
        assert torch.allclose(values, weights(two)[name], atol=1e-5), name


def ranks_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    found = [int(child) for child in children]
    assert len(found) == 2
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


LONG = replace(SMALL, ranks=2, epochs=10_000)


@pytest.mark.thorough
@pytest.mark.parametrize("victim", ["a rank", "the run"])
def test_when_one_ends_all_end(tmp_path, victim):
    with started(tmp_path, LONG) as process:
        wait_for(process, "report")
        ranks = ranks_of(process)
        os.kill(ranks[1] if victim == "a rank" else process.pid, signal.SIGKILL)
        lines, code = ended(process)
        wait_until(lambda: not any(map(alive, ranks)), "a rank goes on", SOON_S)
    if victim == "a rank":
        assert code == 1
        assert lines[-1] == (
            "error",
            "rank 1 ended by signal 9; the other ranks were ended, too. The log has what it wrote.",
        )


@pytest.mark.thorough
def test_ranks_that_are_asked_to_end_stop_at_one_batch(tmp_path):
    """Their checkpoint continues the curve of ranks that were never asked."""
    settings = replace(LONG, batch_size=16, checkpoint=str(tmp_path / "kept"))
    with started(tmp_path, settings) as process:
        wait_for(process, "report", 2)
        process.send_signal(signal.SIGTERM)
        _, code = ended(process)
    assert code == 128 + signal.SIGTERM
    epochs = checkpoint.read_checkpoint(settings.checkpoint, 1).epoch + 1
    with started(tmp_path, replace(settings, epochs=epochs)) as process:
        resumed = ended(process)[0][-1][1]
    with started(tmp_path, replace(settings, epochs=epochs, checkpoint="")) as process:
        whole = ended(process)[0][-1][1]
    assert losses(resumed) == pytest.approx(losses(whole), rel=1e-12)


def test_every_seed_has_one_rank():
    batches = schedule.split_batches(list(range(10)), 4)
    shares = [schedule.share_of_rank(batches, rank, 3) for rank in range(3)]
    assert shares == [[[0, 3], [4, 7], [8]], [[1], [5], [9]], [[2], [6], [8]]]  # the last is repeated, with weight 0


def test_another_number_of_processes_is_refused(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match="ranks is 2, but 3 processes were started"), join.join_ranks(LONG):
        pass


def test_a_gpu_that_is_not_there_is_refused_before_the_graph_is_opened(tmp_path):
    """No rank waits for another one that found no GPU."""
    with started(tmp_path, replace(SMALL, device="cuda"), CUDA_VISIBLE_DEVICES="") as process:
        lines, code = ended(process)
    assert code == 1
    ((kind, text),) = lines
    assert kind == "error"
    assert text.startswith("device cuda: rank 0 needs GPU 0, but torch ")


def test_gpus_are_held_in_one_order(tmp_path, monkeypatch):
    """A run that waits for the first of its GPUs holds none of the others: so no two runs wait for each other."""
    first, second = (replace(KNOWN["sm_90a"], uuid=f"GPU-{letter}") for letter in "ab")
    monkeypatch.setattr(lock, "_FOLDER", tmp_path)
    monkeypatch.setattr(join, "_LOCK_S", 0.1)
    monkeypatch.setattr(join, "detect_all", lambda: (second, first))
    taken, free = threading.Event(), threading.Event()

    def other():
        with lock.hold(first.uuid, "another run"):
            taken.set()
            free.wait()

    thread = threading.Thread(target=other)
    thread.start()
    taken.wait()
    try:
        with ExitStack() as held, pytest.raises(MachineError, match=r"GPU-a has been busy.*another run"):
            join._hold_gpus(held, 2)
        assert lock.find_holder(second.uuid) is None
    finally:
        free.set()
        thread.join()
    with ExitStack() as held:
        join._hold_gpus(held, 2)
        assert lock.find_holder(first.uuid).what == lock.find_holder(second.uuid).what == "GNN training"
