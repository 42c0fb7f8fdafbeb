"""A deterministic gradient reads the rows that the loader transposed, and two runs agree in every bit."""

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import Gradient, ModelName, PipelineMode, Place, Task
from tests.later import Later
from tests.workloads.gnn.runs import losses, open_small, train_small

torch = Later("torch")
fixing = Later("cutegen_core.workloads.gnn.training.fixing")
training = Later("cutegen_core.workloads.gnn.training.train")
bench = Later("cutegen_core.workloads.gnn.training.bench")

IN_ORDER = {"gradient": Gradient.DETERMINISTIC}


@pytest.fixture(autouse=True)
def _nothing_is_sorted(monkeypatch):
    """Every table that takes a gradient comes with its transposed rows."""
    monkeypatch.setattr("cutegen_core.operators.gather_mean.transpose", lambda entries: 1 / 0)


@pytest.mark.parametrize("model", [name for name in ModelName if name is not ModelName.GAT])
@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("layered", [False, True])
def test_training_learns_what_it_learns_otherwise(model, place, layered):
    """Three hops, so that one layer's sources are another's targets."""
    asked = {"model": model, "features": place, "layered": layered, "fanouts": (4, 3, 2), "inference_fanouts": (4,) * 3}
    found, plain = train_small(**asked, **IN_ORDER), train_small(**asked)
    assert losses(found) == pytest.approx(losses(plain), rel=1e-5)
    assert found.accuracies == pytest.approx(plain.accuracies, abs=0.01)


def padded(**changes):
    run = open_small(**changes)
    run.layout = fixing.derive_layout(run)
    return run


def test_padding_changes_no_loss():
    """Added rows read added sources only, in the transposed rows as well."""
    found = training.train(padded(dropout=0.0, **IN_ORDER))
    assert losses(found) == pytest.approx(losses(train_small(dropout=0.0)), rel=1e-5)


def test_two_runs_agree_in_every_bit():
    """Whatever the number of threads that prepare, and the mode."""
    wanted = losses(train_small(**IN_ORDER))
    for changes in ({"threads": 3}, {"mode": PipelineMode.SERIAL}):
        assert losses(train_small(**IN_ORDER, **changes)) == wanted


def test_a_bench_compares_what_has_such_a_gradient():
    measured = bench.bench(open_small(task=Task.BENCH, epochs=1, **IN_ORDER))
    assert [one.aggregate for one in measured.aggregates] == ["embedding_bag"]
    assert measured.aggregates[0].share > 0


def test_gat_and_sums_in_no_fixed_order_are_refused():
    with pytest.raises(UsageError, match="model gat adds up its gradient in no fixed order: leave gradient at any"):
        open_small(model=ModelName.GAT, **IN_ORDER)
    with pytest.raises(UsageError, match="index_add adds up in no fixed order on a GPU"):
        open_small(aggregate="index_add", **IN_ORDER)
