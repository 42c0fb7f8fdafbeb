"""Sampled inference comes close to all neighbours, and neighbours tell what features alone do not."""

from dataclasses import replace

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import ComputeType, GraphSettings, ModelName, Task
from tests.later import Later
from tests.workloads.gnn.runs import SMALL, open_small, train_small

torch = Later("torch")
infer = Later("cutegen_core.workloads.gnn.training.infer")
inference = Later("cutegen_core.workloads.gnn.training.inference")

BLOCKS = {
    "graph": GraphSettings(nodes=20_000, degree=16, classes=8, width=48), "hidden": 64, "fanouts": (10, 10),
    "inference_fanouts": (20, 20), "batch_size": 512, "learning_rate": 0.01, "dropout": 0.2, "epochs": 5,
}  # fmt: skip


@pytest.mark.thorough
def test_accuracy_on_the_block_model(tmp_path):
    train_small(**BLOCKS, checkpoint=str(tmp_path))
    result = infer.infer(open_small(**BLOCKS, checkpoint=str(tmp_path), task=Task.INFER))
    assert abs(result.sampled_accuracy - result.full_accuracy) <= 0.005
    assert result.sampled_accuracy >= result.features_only_accuracy + 0.30
    assert result.features_only_accuracy > 0.3  # it did learn; chance is an eighth


def test_what_does_not_fit_the_memory_is_left_out_with_a_note(tmp_path, monkeypatch):
    train_small(checkpoint=str(tmp_path), epochs=1)
    run = open_small(checkpoint=str(tmp_path), epochs=1, task=Task.INFER)
    monkeypatch.setattr(run.device, "free_bytes", lambda: 100_000)
    result = infer.infer(run)
    assert result.full_accuracy is None
    assert result.notes[0].startswith(
        "layer-wise inference was left out: it keeps 3 tables of 1,200 nodes x 16 float32"
    )
    assert result.features_only_accuracy


@pytest.mark.parametrize("name", list(ModelName))
def test_all_neighbours_drawn_are_all_neighbours_layer_by_layer(name, monkeypatch):
    """With fanouts above every degree both ways compute the same; the graph is cut into many pieces."""
    monkeypatch.setattr(inference, "_CHUNK_EDGES", 1000)
    run = open_small(model=name, inference_fanouts=(1000, 1000))
    model, nodes = run.make_model(1), run.graph.splits.test
    sampled, full = inference.infer_sampled(run, model, nodes), inference.infer_full(run, model, nodes)
    assert sampled.share == full.share
    assert 0 < full.share < 1


def test_inference_reads_the_weights_of_its_folder(tmp_path):
    trained = train_small(checkpoint=str(tmp_path), epochs=4)
    inferred = infer.infer(open_small(checkpoint=str(tmp_path), epochs=4, precision=ComputeType.FP32, task=Task.INFER))
    assert inferred.sampled_accuracy == trained.sampled_accuracy
    assert inferred.epochs[0].accuracy == trained.sampled_accuracy


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": ModelName.GIN}, "model sage, not gin"),
        ({"graph": replace(SMALL.graph, seed=1)}, "graph of seed 0, not 1"),
        ({"fanouts": (5,), "inference_fanouts": (5,)}, "has 2 layers, inference_fanouts 1 hops"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path, changes, says):
    train_small(checkpoint=str(tmp_path), epochs=1)
    with pytest.raises(UsageError, match=says):
        infer.infer(open_small(checkpoint=str(tmp_path), task=Task.INFER, **changes))


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"there is no checkpoint .*trial-1\.checkpoint\. Train with this folder"):
        infer.infer(open_small(checkpoint=str(tmp_path), task=Task.INFER))
