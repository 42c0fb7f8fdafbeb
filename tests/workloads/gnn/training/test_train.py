"""Training: the same curve whatever the aggregate, and through any interruption; schedules, trials, refusals."""

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from cutegen_core.records.errors import MachineError, StoppedError, UsageError
from cutegen_core.records.gnn import Schedule
from tests.later import Later
from tests.workloads.gnn.runs import SMALL, graph_of, losses, open_small, read, train_small

torch = Later("torch")
checkpoint = Later("cutegen_core.workloads.gnn.training.checkpoint")
reporting = Later("cutegen_core.workloads.gnn.reporting")
schedule = Later("cutegen_core.workloads.gnn.training.schedule")
train = Later("cutegen_core.workloads.gnn.training.train")


@pytest.mark.parametrize("aggregate", ["index_add", "spmm"])
def test_swapping_the_aggregate_keeps_the_loss(aggregate):
    assert losses(train_small(aggregate=aggregate)) == pytest.approx(losses(train_small()), rel=1e-4)


def test_a_run_is_reproducible_and_its_seed_counts():
    first, again, other = train_small(), train_small(), train_small(seed=1)
    assert losses(first) == losses(again)
    assert first.accuracies == again.accuracies
    assert losses(first) != losses(other)


def test_resuming_continues_the_same_curve(tmp_path):
    folder = str(tmp_path)
    whole = train_small(epochs=4)
    train_small(epochs=2, checkpoint=folder)
    resumed = train_small(epochs=4, checkpoint=folder)
    assert losses(resumed) == losses(whole)
    assert resumed.accuracies == whole.accuracies
    assert [report.epoch for report in resumed.epochs] == [1, 2, 3, 4]


@pytest.mark.parametrize("batch", [0, 2, 4])
def test_a_run_that_is_stopped_within_an_epoch_goes_on_at_its_batch(tmp_path, batch, monkeypatch):
    """Asked to end after a batch of the second epoch; the last one is that before the validation."""
    run = open_small(checkpoint=str(tmp_path))
    seen = []
    show = train.Estimate.show

    def stop_there(self, phase, trial, epoch, done, *rest):
        seen.append((epoch, done))
        if (epoch, done) == (2, batch + 1):
            run.stop.signal = 15
        show(self, phase, trial, epoch, done, *rest)

    monkeypatch.setattr(train.Estimate, "show", stop_there)
    with pytest.raises(StoppedError):
        train.train(run)
    found = checkpoint.read_checkpoint(str(tmp_path), 1)
    assert found.epoch == 1
    assert batch < found.batch <= batch + 2
    resumed = train_small(checkpoint=str(tmp_path))
    assert losses(resumed) == pytest.approx(losses(train_small()), rel=1e-12)
    assert resumed.epochs[1].batches == 5 - found.batch


def test_every_step_has_a_seed_of_its_own():
    """By trial, epoch, batch and rank; another run of the same settings draws the same."""
    settings = open_small().settings
    drawn = [schedule.step_seeds(settings, *parts, 50) for parts in itertools.product((1, 2), (1, 2), (0, 1))]
    assert len({seed for seeds in drawn for seed in seeds}) == 8 * 50
    assert schedule.step_seeds(settings, 1, 1, 0, 50) == drawn[0]
    schedule.seed_step(torch.device("cpu"), drawn[0][3])
    first = torch.rand(4)
    schedule.seed_step(torch.device("cpu"), drawn[0][3])
    assert torch.equal(torch.rand(4), first)


def test_trials_differ_and_each_has_its_checkpoint(tmp_path):
    result = train_small(trials=2, checkpoint=str(tmp_path))
    first, second = ([report.loss for report in result.epochs if report.trial == trial] for trial in (1, 2))
    assert first != second
    assert first == losses(train_small())
    assert len(result.accuracies) == 2
    assert result.mean_accuracy == pytest.approx(np.mean(result.accuracies))
    assert result.accuracy_deviation == pytest.approx(np.std(result.accuracies, ddof=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial-1.checkpoint", "trial-2.checkpoint"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden": 32}, "hidden 16, not 32"),
        ({"fanouts": (6, 4)}, "fanouts 8,4, not 6,4"),
        ({"graph": replace(SMALL.graph, degree=10)}, "graph of degree 12, not 10"),
        ({"learning_rate": 0.1}, "learning_rate 0.01, not 0.1"),
        ({"schedule": Schedule.COSINE}, "schedule constant, not cosine"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, changes, says):
    train_small(epochs=1, checkpoint=str(tmp_path))
    with pytest.raises(UsageError, match=says):
        train_small(checkpoint=str(tmp_path), **changes)


def test_a_cosine_over_other_epochs_is_another_curve(tmp_path):
    train_small(epochs=1, checkpoint=str(tmp_path), schedule=Schedule.COSINE)
    with pytest.raises(UsageError, match="epochs 1, not 2"):
        train_small(epochs=2, checkpoint=str(tmp_path), schedule=Schedule.COSINE)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b"", lambda b: b[:900] + b"x" + b[901:]]
)
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    train_small(epochs=1, checkpoint=str(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=r"is damaged\. Delete it"):
        train_small(checkpoint=str(tmp_path))


def test_progress_estimates_the_time_that_is_left(monkeypatch):
    monkeypatch.setattr(reporting, "_EVERY_S", 0.0)
    run, began = open_small(epochs=4), time.monotonic()
    train.train(run)
    took = time.monotonic() - began
    lines = [read(line) for line in run.reporter._out.getvalue().splitlines()]
    training = [record for kind, record in lines if kind == "progress" and record.phase == "training"]
    assert [(one.epoch, one.done, one.total) for one in training] == [
        (e, b, 5) for e in (1, 2, 3, 4) for b in (1, 2, 3, 4, 5)
    ]
    left = [one.left_s for one in training]
    assert left[-1] == 0
    assert all(0 <= each < 30 * took for each in left)
    assert all(math.isfinite(one.loss) for one in training)
    assert any(record.phase.startswith("inferring") for kind, record in lines if kind == "progress")


def test_two_runs_do_not_write_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "WAIT_S", 0.1)
    with checkpoint.hold_folder(str(tmp_path)), pytest.raises(UsageError, match="another run writes checkpoints to"):
        train_small(checkpoint=str(tmp_path))
    assert train_small(checkpoint=str(tmp_path)).epochs


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_trained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match=r"file/below for checkpoints cannot be used: Not a directory"):
        train_small(checkpoint=str(tmp_path / "file" / "below"))


def test_a_loss_that_is_no_number_ends_the_run():
    with pytest.raises(
        UsageError, match=r"the loss became (nan|inf) by batch \d+ of epoch 1 of trial 1. Lower learning_rate"
    ):
        train_small(learning_rate=1e30)


def test_schedules():
    rates = {
        kind: [
            schedule.learning_rate(replace(SMALL, schedule=kind, epochs=20, learning_rate=1), e) for e in (1, 11, 20)
        ]
        for kind in Schedule
    }
    assert rates[Schedule.CONSTANT] == [1, 1, 1]
    assert rates[Schedule.STEP] == [1, 0.5, 0.5]
    assert rates[Schedule.COSINE] == pytest.approx([1, 0.5, 0.5 * (1 + math.cos(math.pi * 19 / 20))])


def test_a_schedule_reaches_the_optimizer():
    assert losses(train_small(schedule=Schedule.COSINE)) != losses(train_small())


@pytest.mark.parametrize(
    ("part", "says"),
    [("labels", "training nodes have no label"), ("train", "no training nodes"), ("test", "no test nodes")],
)
def test_a_graph_that_cannot_be_learnt_is_refused(part, says):
    graph = graph_of(SMALL.graph)
    if part == "labels":
        graph = replace(graph, labels=np.full_like(graph.labels, -1))
    else:
        graph = replace(graph, splits=replace(graph.splits, **{part: np.empty(0, np.int64)}))
    with pytest.raises(UsageError, match=says):
        train_small(graph)


def test_nodes_without_a_class_count_in_no_accuracy():
    """Half of the test nodes have no class; the accuracy is that of the others."""
    graph = graph_of(SMALL.graph)
    labels = graph.labels.copy()
    labels[graph.splits.test[::2]] = -1
    fewer = replace(graph, splits=replace(graph.splits, test=graph.splits.test[1::2]))
    assert train_small(replace(graph, labels=labels)).accuracies[0] == pytest.approx(
        train_small(fewer).accuracies[0], abs=0.08
    )  # other samples of the same nodes
