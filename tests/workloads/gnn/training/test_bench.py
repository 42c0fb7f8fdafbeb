"""A bench run compares aggregates in one run, and bounds what a faster one can give."""

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import Autonomy
from cutegen_core.records.gnn import TORCH_AGGREGATES, Gradient, GraphSettings, ModelName, PipelineMode, Task
from tests.few_runs import few_runs
from tests.later import Later
from tests.session.real_sessions import loop
from tests.workloads.gnn.runs import losses, open_small, train_small

bench = Later("cutegen_core.workloads.gnn.training.bench")


@pytest.fixture(scope="module")
def measured():
    return bench.bench(open_small(task=Task.BENCH, aggregate="spmm", epochs=2))


def test_every_aggregate_and_the_other_mode_have_epochs(measured):
    ran = {(report.epoch, report.aggregate, report.mode) for report in measured.epochs}
    pipelined = {(epoch, name, PipelineMode.PIPELINED) for epoch in (1, 2) for name in TORCH_AGGREGATES}
    assert ran == pipelined | {(1, "spmm", PipelineMode.SERIAL)}
    assert len(measured.epochs) == len(ran)


def test_all_train_the_same(measured):
    by_epoch = {epoch: [one.loss for one in measured.epochs if one.epoch == epoch] for epoch in (1, 2)}
    for found in by_epoch.values():
        assert found == pytest.approx([found[0]] * len(found), rel=1e-4)


def test_the_runs_own_aggregate_comes_first_with_its_bound(measured):
    names = [one.aggregate for one in measured.aggregates]
    assert names[0] == "spmm"
    assert sorted(names) == sorted(TORCH_AGGREGATES)
    own = measured.aggregates[0]
    assert (measured.compute_only_s, measured.aggregate_share) == (own.compute_only_s, own.share)
    for one in measured.aggregates:
        assert one.compute_only_s > 0
        assert one.share > 0
        assert one.over_compute_only > 0


def test_the_share_is_that_of_the_aggregate():
    """An aggregate that is made slow takes most of the time."""
    import time

    run = open_small(task=Task.BENCH, epochs=1)
    fast = run.aggregate.run

    def slow(*given):
        time.sleep(0.05)
        return fast(*given)

    run.aggregate = run.aggregate._replace(name="slow", run=slow)
    own = bench.bench(run).aggregates[0]
    assert own.aggregate == "slow"
    assert own.share > 0.5
    assert own.compute_only_s > 5 * 2 * 0.05


def test_attention_has_no_aggregate_to_compare():
    (own,) = bench.bench(open_small(task=Task.BENCH, model=ModelName.GAT, epochs=1)).aggregates
    assert own.share is None


def test_a_declared_sleep_is_its_own_compute_only():
    (own,) = bench.bench(open_small(task=Task.BENCH, device="sleep:4", epochs=1)).aggregates
    assert own.compute_only_s == pytest.approx(5 * 0.004)
    assert own.over_compute_only > 1
    assert own.share is None


# -- a plugged kernel --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel(tmp_path_factory, workspace_home):
    """The name of a kernel that passed in a session, and the workspace with its store."""
    home = tmp_path_factory.mktemp("plugged")
    (home / "cache").symlink_to(workspace_home / "cache")
    with loop(home) as desk:
        session = desk.start(few_runs("gather_mean"), autonomy=Autonomy.AUTO, max_steps=1)
        desk.go(session)
        yield f"kernel:{session}.1", home


@pytest.fixture(scope="module")
def gradients(kernel):
    """By the problem of its gradient's kernel: the name of the kernel with it."""
    name, home = kernel
    found = {}
    with loop(home) as desk:
        for problem in ("gather_mean_backward_deterministic", "gather_mean_backward"):
            session = desk.start(few_runs(problem), autonomy=Autonomy.AUTO, max_steps=1)
            desk.go(session)
            found[problem] = f"{name}+{session}.1"
    return found


TINY = {
    "graph": GraphSettings(nodes=200, degree=6, width=8, classes=4), "hidden": 8, "fanouts": (3, 2),
    "inference_fanouts": (3, 2), "batch_size": 64, "epochs": 1,
}  # fmt: skip


def test_a_kernel_of_a_session_trains_as_torch_does(kernel, monkeypatch):
    name, home = kernel
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    result = train_small(**TINY, aggregate=name)
    assert losses(result) == pytest.approx(losses(train_small(**TINY)), rel=1e-4)
    assert "emulator" in result.kernel_note
    assert "converted to torch.float32" in result.kernel_note


@pytest.mark.thorough
def test_a_gradient_in_one_order_reads_what_the_loader_transposed(kernel, gradients, monkeypatch):
    """Also without the setting; a kernel without a gradient of its own has torch's in one order."""
    name, home = kernel
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    wanted = pytest.approx(losses(train_small(**TINY)), rel=1e-4)
    monkeypatch.setattr("cutegen_core.operators.gather_mean.transpose", _sorts_on_the_small_graph_only)
    in_order = gradients["gather_mean_backward_deterministic"]
    assert losses(train_small(**TINY, aggregate=in_order)) == wanted
    for aggregate in (in_order, name):
        asked = {**TINY, "aggregate": aggregate, "gradient": Gradient.DETERMINISTIC}
        found = losses(train_small(**asked))
        assert found == wanted
        assert losses(train_small(**asked)) == found
    with pytest.raises(UsageError, match="adds up its gradient with atomics, in no fixed order"):
        open_small(**TINY, aggregate=gradients["gather_mean_backward"], gradient=Gradient.DETERMINISTIC)


def _sorts_on_the_small_graph_only(entries):
    """Return the graph that a kernel is first tried on: a graph of 11 sources, which nobody transposed."""
    assert entries.sources == 11, "the loader transposes"
    idx, indptr, sources, _ = entries
    rows = indptr.diff().new_tensor(range(len(indptr) - 1)).repeat_interleave(indptr.diff())
    order = idx.argsort(stable=True)
    return rows[order], idx.new_tensor([int((idx < source).sum()) for source in range(sources + 1)])


@pytest.mark.thorough
def test_a_kernel_is_measured_beside_those_of_torch(kernel, monkeypatch):
    name, home = kernel
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    own, *others = bench.bench(open_small(**TINY, task=Task.BENCH, aggregate=name)).aggregates
    assert own.aggregate == name
    assert sorted(one.aggregate for one in others) == sorted(TORCH_AGGREGATES)
    assert own.share > 0.5  # on the emulator


def test_a_kernel_that_does_not_exist_is_refused(kernel, monkeypatch):
    _, home = kernel
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    with pytest.raises(UsageError, match="nowhere"):
        open_small(aggregate="kernel:nowhere.1")
