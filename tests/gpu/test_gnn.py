"""On a GPU: batches arrive whole, training learns what the CPU learns, a bench measures, and ranks share the GPUs."""

from dataclasses import replace

import pytest

from cutegen_core.machine.device import detect, detect_all
from cutegen_core.records.gnn import TORCH_AGGREGATES, ComputeType, ModelName, PipelineMode, Place, Task
from tests.later import Later
from tests.workloads.gnn.runs import SMALL, ended, losses, open_small, started, train_small

bench = Later("cutegen_core.workloads.gnn.training.bench")
infer = Later("cutegen_core.workloads.gnn.training.infer")
schedule = Later("cutegen_core.workloads.gnn.training.schedule")
run_module = Later("cutegen_core.workloads.gnn.training.run")
torch = Later("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]

CUDA = {"device": "cuda", "dropout": 0.0, "threads": 3}


@pytest.mark.parametrize("mode", PipelineMode)
@pytest.mark.parametrize("features", Place)
def test_training_learns_what_the_cpu_learns(features, mode):
    on_cpu = train_small(dropout=0.0)
    found = train_small(**CUDA, features=features, mode=mode)
    assert losses(found) == pytest.approx(losses(on_cpu), rel=2e-3)
    assert found.accuracies == pytest.approx(on_cpu.accuracies, abs=0.02)
    assert "NVIDIA" in found.machine["device"]


@pytest.mark.parametrize("aggregate", TORCH_AGGREGATES)
@pytest.mark.parametrize("precision", ComputeType)
def test_every_aggregate_trains_in_every_precision(aggregate, precision):
    found = losses(train_small(**CUDA, aggregate=aggregate, precision=precision))
    assert found == pytest.approx(losses(train_small(dropout=0.0)), rel=2e-3 if precision is ComputeType.FP32 else 0.05)


@pytest.mark.parametrize("model", ModelName)
def test_every_model_learns(model):
    first, *_, last = losses(train_small(**CUDA, model=model, epochs=4))
    assert last < first


@pytest.mark.parametrize("features", Place)
def test_batches_arrive_whole_however_fast_slots_are_used_again(features):
    """Each batch is compared with what the graph has, while two slots are filled again by three threads."""
    run = open_small(**CUDA, features=features, batch_size=16, slots=2)
    graph, seen = run.graph, []
    batches = schedule.shuffled_batches(graph.splits.train, run.settings, 1, 1)

    def step(inputs):
        seen.append((inputs.labels.clone(), inputs.features[: len(inputs.labels)].float().sum(1), inputs.number))

    run.pass_over(batches, run_module.SamplingOf((8, 4), 0), step, lambda number: None)
    assert len(seen) == len(batches)
    for labels, sums, number in seen:
        nodes = batches[number]
        assert labels.cpu().tolist() == graph.labels[nodes].tolist()
        want = torch.from_numpy(graph.features[nodes].astype("float32")).sum(1)
        torch.testing.assert_close(sums.cpu(), want, rtol=1e-3, atol=1e-3)
    assert all(slot.buffers.whole.is_pinned() for slot in run.pool._spare)


@pytest.mark.parametrize("features", Place)
@pytest.mark.parametrize("precision", ComputeType)
def test_a_bench_measures_every_aggregate(features, precision):
    found = bench.bench(open_small(**CUDA, task=Task.BENCH, features=features, precision=precision))
    assert {one.aggregate for one in found.aggregates} == set(TORCH_AGGREGATES)
    for one in found.aggregates:
        assert 0 < one.share < 1.5
        assert one.compute_only_s > 0
    for report in found.epochs:
        assert report.times.transfer > 0
        assert report.times.compute <= report.seconds * 1.01


def test_inference_by_all_neighbours_is_that_of_the_cpu(tmp_path):
    folder = str(tmp_path)
    train_small(**CUDA, checkpoint=folder)
    asked = {"task": Task.INFER, "checkpoint": folder}
    on_gpu = infer.infer(open_small(**CUDA, **asked))
    on_cpu = infer.infer(open_small(**asked, dropout=0.0))
    assert on_gpu.full_accuracy == pytest.approx(on_cpu.full_accuracy, abs=0.01)
    assert on_gpu.sampled_accuracy == pytest.approx(on_cpu.sampled_accuracy, abs=0.02)


@pytest.mark.skipif(len(detect_all()) < 2, reason="needs two GPUs")
def test_two_gpus_learn_what_one_learns(tmp_path):
    everything = {
        **CUDA, "fanouts": (1000, 1000), "inference_fanouts": (1000, 1000), "batch_size": 101, "epochs": 2,
    }  # fmt: skip
    alone = train_small(**everything)
    with started(tmp_path, replace(SMALL, **everything, ranks=2)) as process:
        lines, code = ended(process)
    assert code == 0, lines
    together = lines[-1][1]
    assert together.machine["ranks"] == "2"
    assert losses(together) == pytest.approx(losses(alone), rel=1e-4)
    assert together.accuracies == pytest.approx(alone.accuracies, abs=0.01)
