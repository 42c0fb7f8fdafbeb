"""Stages overlap, what is exposed is accounted for, and no mode changes what is learnt."""

import numpy as np
import pytest

from cutegen_core.records.gnn import BatchStage, GraphSettings, PipelineMode, Place, Span
from tests.later import Later
from tests.workloads.gnn.runs import losses, open_small, train_small

times = Later("cutegen_core.workloads.gnn.training.times")
runs = Later("cutegen_core.workloads.gnn.training.run")
devices = Later("cutegen_core.workloads.gnn.training.devices")

WIDE = GraphSettings(nodes=20_000, degree=16, width=64)


def test_preparation_hides_behind_the_emulated_device():
    """P; the best of five epochs, since other programs use the processors, too."""
    result = train_small(**_emulated(PipelineMode.PIPELINED) | {"epochs": 5})
    assert min(report.over_longest_stage for report in result.epochs) <= 1.15
    assert "nothing is computed" in result.machine["device"]
    assert result.accuracies == ()
    assert all(report.loss != report.loss and report.accuracy is None for report in result.epochs)


def _emulated(mode):
    return {
        "graph": WIDE, "device": "sleep:25", "mode": mode, "batch_size": 512, "fanouts": (15, 10, 5),
        "inference_fanouts": (5, 5, 5), "epochs": 2, "threads": 2,
    }  # fmt: skip


def test_stages_in_series_are_exposed():
    """The same work in series takes its stages' sum, and says what the trainer waited for."""
    result = train_small(**_emulated(PipelineMode.SERIAL))
    for report in result.epochs:
        spent = report.times
        assert report.seconds >= spent.prepare + spent.transfer + spent.compute
        assert spent.waited_prepare >= spent.prepare
        assert report.seconds >= spent.compute + spent.waited_prepare + spent.waited_transfer


@pytest.mark.parametrize(
    "changes",
    [{"mode": PipelineMode.SERIAL}, {"features": Place.DEVICE}, {"threads": 3, "slots": 2}, {"slots": 7, "threads": 2}],
    ids=str,
)
def test_how_batches_travel_changes_no_loss(changes):
    assert losses(train_small(**changes)) == losses(train_small())


def test_layered_sampling_trains():
    layered, frontier = train_small(layered=True), train_small()
    assert layered.epochs[0].edges > frontier.epochs[0].edges
    assert losses(layered) == pytest.approx(losses(frontier), rel=0.1)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("place", list(Place))
def test_a_batch_sent_in_one_piece_is_the_batch(layered, place):
    """Of odd sizes, in slots that are used again and grow; kernels find every part at 16 bytes."""
    run = open_small(layered=layered, features=place, batch_size=37)
    seeds = [np.arange(37), np.arange(100, 113), np.arange(200, 600)]
    with run.loader(seeds, runs.SamplingOf((40, 30), 5), slots=1) as loader:
        for batch in loader:
            flight, sampled = run.device.send(batch), batch.sampled
            assert flight.inputs.labels.tolist() == run.graph.labels[sampled.nodes[: len(batch.labels)]].tolist()
            assert (flight.inputs.nodes is None) == (place is Place.HOST)
            if flight.inputs.nodes is not None:
                assert flight.inputs.nodes.tolist() == sampled.nodes.tolist()
            for hop, want in zip(flight.inputs.hops, sampled.hops, strict=True):
                assert (hop.idx.tolist(), hop.indptr.tolist()) == (want.idx.tolist(), want.indptr.tolist())
                assert (hop.idx.data_ptr() % 16, hop.indptr.data_ptr() % 16) == (0, 0)
            run.device.settle(flight)


def passage(number, prepared, copied, computed):
    spans = (Span(BatchStage.PREPARE, "prepare 0", number, *prepared),)
    return times.Passage(number, spans, devices.Interval(*copied), devices.Interval(*computed))


def test_waits_are_attributed():
    """The clock began at 10; the first batch is awaited, the second hidden, the third late by its copy."""
    found = times.account(
        [
            passage(0, (10, 12), (12, 13), (13, 20)),
            passage(1, (11, 14), (14, 16), (20, 25)),
            passage(2, (13, 26), (26, 28), (28.5, 30)),
        ],
        10,
        2,
    )
    assert (found.prepare, found.transfer, found.compute) == (18, 5, 13.5)
    assert (found.waited_prepare, found.waited_transfer) == (3, 3)  # 2 + 1, and 1 + 2; half a second is the trainer's


def test_the_timeline_shows_every_stage_of_the_first_batches():
    spans = train_small(epochs=1).epochs[0].timeline
    assert {span.stage for span in spans} == set(BatchStage)
    by_batch = {number: [span for span in spans if span.batch == number] for number in {span.batch for span in spans}}
    assert set(by_batch) == set(range(5))  # 600 nodes in batches of 128
    for one in by_batch.values():
        ordered = sorted(one, key=lambda span: span.start_s)
        assert [span.stage for span in ordered] == [
            BatchStage.PREPARE,
            BatchStage.PREPARE,
            BatchStage.TRANSFER,
            BatchStage.COMPUTE,
        ]
        assert all(0 <= span.start_s <= span.end_s for span in one)
