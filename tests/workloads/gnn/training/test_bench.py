"""A bench run compares aggregates in one run, and bounds what a faster one can give."""

import pytest

from cutegen_core.records.gnn import TORCH_AGGREGATES, Mode, ModelName, Task
from tests.later import Later
from tests.workloads.gnn.runs import open_small

bench = Later("cutegen_core.workloads.gnn.training.bench")


@pytest.fixture(scope="module")
def measured():
    return bench.bench(open_small(task=Task.BENCH, aggregate="spmm", epochs=2))


def test_every_aggregate_and_the_other_mode_have_epochs(measured):
    ran = {(report.epoch, report.aggregate, report.mode) for report in measured.epochs}
    pipelined = {(epoch, name, Mode.PIPELINED) for epoch in (1, 2) for name in TORCH_AGGREGATES}
    assert ran == pipelined | {(epoch, "spmm", Mode.SERIAL) for epoch in (1, 2)}
    assert len(measured.epochs) == len(ran)


def test_all_train_the_same(measured):
    by_epoch = {epoch: [one.loss for one in measured.epochs if one.epoch == epoch] for epoch in (1, 2)}
    for found in by_epoch.values():
        assert found == pytest.approx([found[0]] * 4, rel=1e-4)


def test_the_runs_own_aggregate_comes_first_with_its_bound(measured):
    names = [one.aggregate for one in measured.aggregates]
    assert names[0] == "spmm"
    assert sorted(names) == sorted(TORCH_AGGREGATES)
    own = measured.aggregates[0]
    assert (measured.compute_only_s, measured.aggregate_share) == (own.compute_only_s, own.share)
    for one in measured.aggregates:
        assert one.compute_only_s > 0
        assert 0 < one.share < 1
        assert one.over_compute_only > 0


def test_the_share_is_that_of_the_aggregate():
    """An aggregate that is made slow takes nearly all of the time."""
    import time

    run = open_small(task=Task.BENCH, epochs=1)
    fast = run.aggregate.run

    def slow(table, idx, indptr):
        time.sleep(0.02)
        return fast(table, idx, indptr)

    run.aggregate = run.aggregate._replace(name="slow", run=slow)
    own, *others = bench.bench(run).aggregates
    assert own.aggregate == "slow"
    assert own.share > 0.75
    assert own.compute_only_s > 5 * 2 * 0.02 > others[0].compute_only_s


def test_attention_has_no_aggregate_to_compare():
    (own,) = bench.bench(open_small(task=Task.BENCH, model=ModelName.GAT, epochs=1)).aggregates
    assert own.share is None


def test_a_declared_sleep_is_its_own_compute_only():
    (own,) = bench.bench(open_small(task=Task.BENCH, device="sleep:4", epochs=1)).aggregates
    assert own.compute_only_s == pytest.approx(5 * 0.004)
    assert own.over_compute_only > 1
    assert own.share is None
