"""On a GPU: batches arrive whole, training learns what the CPU learns, captured or not, a bench measures, and ranks
share the GPUs."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.machine.device import detect, detect_all
from cutegen_core.records.gnn import (
    TORCH_AGGREGATES,
    ComputeType,
    Gradient,
    ModelName,
    PipelineMode,
    Place,
    Schedule,
    Steps,
    Task,
)
from tests.later import Later
from tests.workloads.gnn.runs import SMALL, ended, losses, open_small, started, train_small

bench = Later("cutegen_core.workloads.gnn.training.bench")
infer = Later("cutegen_core.workloads.gnn.training.infer")
schedule = Later("cutegen_core.workloads.gnn.training.schedule")
run_module = Later("cutegen_core.workloads.gnn.training.run")
training = Later("cutegen_core.workloads.gnn.training.train")
fixing = Later("cutegen_core.workloads.gnn.training.fixing")
fixed = Later("cutegen_core.workloads.gnn.sampling.fixed")
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
        seen.append((inputs.labels.clone(), inputs.rows()[: len(inputs.labels)].float().sum(1), inputs.number))

    run.pass_over(batches, run_module.SamplingOf((8, 4), 0), step, lambda number: None)
    assert len(seen) == len(batches)
    for labels, sums, number in seen:
        nodes = batches[number]
        assert labels.cpu().tolist() == graph.labels[nodes].tolist()
        want = torch.from_numpy(graph.features[nodes].astype("float32")).sum(1)
        torch.testing.assert_close(sums.cpu(), want, rtol=1e-3, atol=1e-3)
    assert all(slot.buffers.whole.is_pinned() for slot in run.pool._spare)


@pytest.mark.parametrize("steps", Steps)
@pytest.mark.parametrize("features", Place)
def test_with_a_deterministic_gradient_two_runs_agree_in_every_bit(features, steps):
    """Dropout included; the last batch of each epoch is shorter."""
    asked = {**CUDA, "dropout": 0.5, "features": features, "steps": steps, "epochs": 4, "fanouts": (8, 4, 3)}
    asked |= {"gradient": Gradient.DETERMINISTIC, "inference_fanouts": (4, 4, 4)}
    one, other = train_small(**asked), train_small(**asked | {"threads": 1})
    assert losses(one) == losses(other)
    assert one.accuracies == other.accuracies
    plain = train_small(**asked | {"gradient": Gradient.ANY})
    assert losses(one) == pytest.approx(losses(plain), rel=1e-3)


CAPTURED = "7 of 10 captured as CUDA graphs"
"""Of two epochs of five batches; the first three steps run as they are."""


@pytest.mark.parametrize("mode", PipelineMode)
@pytest.mark.parametrize("features", Place)
@pytest.mark.parametrize("layered", [False, True])
def test_captured_steps_learn_what_eager_steps_learn(features, mode, layered):
    asked = {**CUDA, "features": features, "mode": mode, "layered": layered}
    eager, captured = (train_small(**asked, steps=steps) for steps in (Steps.EAGER, Steps.CAPTURED))
    assert captured.machine["steps"] == CAPTURED
    assert eager.machine["steps"] == "eager: the settings ask for it"
    assert losses(captured) == pytest.approx(losses(eager), rel=1e-4)
    assert captured.accuracies == pytest.approx(eager.accuracies, abs=0.01)


@pytest.mark.parametrize("model", ModelName)
@pytest.mark.parametrize("precision", ComputeType)
def test_every_model_can_be_captured(model, precision):
    asked = {**CUDA, "model": model, "precision": precision}
    eager, captured = (train_small(**asked, steps=steps) for steps in (Steps.EAGER, Steps.CAPTURED))
    assert captured.machine["steps"] == CAPTURED
    near = 1e-3 if precision is ComputeType.FP32 else 0.05
    assert losses(captured) == pytest.approx(losses(eager), rel=near)


@pytest.mark.parametrize("aggregate", TORCH_AGGREGATES)
def test_aggregates_are_captured_or_say_why_not(aggregate):
    """Whatever one does, the next run in the process draws at random and is captured as if it had not been."""
    found = train_small(**CUDA, aggregate=aggregate)
    steps = found.machine["steps"]
    assert steps == CAPTURED or (aggregate == "spmm" and steps.startswith("eager: ")), steps
    assert losses(found) == pytest.approx(losses(train_small(dropout=0.0)), rel=2e-3)
    asked = {**CUDA, "dropout": 0.5}
    assert losses(train_small(**asked)) == pytest.approx(losses(train_small(**asked)), rel=1e-3)


def padded_run(**changes):
    """Return a run whose batches are padded, and whose steps are not captured."""
    run = open_small(**CUDA | changes)
    run.layout = fixing.derive_layout(run)
    return run


def test_dropout_of_captured_steps_is_that_of_eager_steps():
    run = padded_run(dropout=0.5, steps=Steps.EAGER)
    eager, captured = training.train(run), train_small(**CUDA | {"dropout": 0.5})
    assert captured.machine["steps"] == CAPTURED
    assert losses(captured) == pytest.approx(losses(eager), rel=1e-4)


def test_dropout_differs_between_replays_by_their_seeds():
    run = padded_run(dropout=0.5, learning_rate=1e-8)
    training.fix_sizes(run)
    trainee = training.make_trainee(run, 1)
    batches = schedule.shuffled_batches(run.graph.splits.train, run.settings, 1, 1)[:1]
    found = []
    with run.loader(batches, run_module.SamplingOf((8, 4), 0), layout=run.layout) as loader:
        flight = run.device.send(next(iter(loader)))
        for seed in (1, 1, 1, 1, 2, 1, 3):
            run.device.run(flight, lambda inputs, seed=seed: trainee.step(inputs, seed, weight=1 / 128, counts=True))
            found.append(trainee.step.read()[0])
        run.device.settle(flight)
    assert trainee.step.captured == 4
    assert found[:4] == pytest.approx([found[0]] * 4, rel=1e-5)
    assert found[5] == pytest.approx(found[0], rel=1e-5)
    assert len({round(found[n], 2) for n in (0, 4, 6)}) == 3


def test_batches_that_do_not_fit_run_as_they_are(monkeypatch):
    """The last batch of each epoch has 88 nodes, the others 128."""

    def tight(samples):
        sizes = fixed.fixed_sizes(samples)
        return (*sizes[:-1], sizes[-1]._replace(targets=100))

    monkeypatch.setattr(fixing, "fixed_sizes", tight)
    found = train_small(**CUDA, epochs=6)
    assert [one.captured for one in found.epochs] == [0, 0, 0, 1, 1, 1]
    assert losses(found) == pytest.approx(losses(train_small(**CUDA, epochs=6, steps=Steps.EAGER)), rel=1e-4)


@pytest.mark.parametrize("other", [{"steps": Steps.EAGER}, {"device": "cpu"}], ids=str)
def test_captured_training_resumes_and_goes_on_elsewhere(tmp_path, other):
    """Three epochs in one go; two and then a third, captured or in another way."""
    asked = CUDA | {"schedule": Schedule.COSINE, "epochs": 3}
    whole = train_small(**asked)
    for changes in ({}, other):
        folder = str(tmp_path / f"{len(changes)}")
        Path(folder).mkdir()
        run = open_small(**asked, checkpoint=folder)
        training.fix_sizes(run)
        trainee = training.make_trainee(run, 1)
        reports = training.train_trial(run, trainee, training.Estimate(run, 3))
        next(reports)
        next(reports)
        rest = train_small(**asked | {"checkpoint": folder} | changes)
        assert losses(rest) == pytest.approx(losses(whole), rel=2e-3)


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
    assert "captured as CUDA graphs" in together.machine["steps"]
    assert losses(together) == pytest.approx(losses(alone), rel=1e-4)
    assert together.accuracies == pytest.approx(alone.accuracies, abs=0.01)
