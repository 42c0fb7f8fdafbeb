"""Models compute what their papers say, read hops outermost first, and learn."""

import numpy as np
import pytest

from cutegen_core.records.gnn import ComputeType, ModelName
from tests.later import Later
from tests.workloads.gnn.runs import losses, open_small, train_small

torch = Later("torch")
gat = Later("cutegen_core.workloads.gnn.models.gat")


def hop(rows, sources):
    from cutegen_core.workloads.gnn.models.sampled import HopTensors

    indptr = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
    return HopTensors(torch.tensor([node for row in rows for node in row]), indptr, len(rows), sources)


def test_attention_is_a_softmax_over_neighbours_and_the_node_itself():
    torch.manual_seed(1)
    layer, features = gat.Attention(6, 8, heads=2), torch.randn(5, 6)
    rows = [[1, 4, 4], [], [0]]
    given = hop(rows, 5)
    found = layer(features, features[:3], given.idx, given.indptr)
    values = layer.project(features).view(5, 2, 4)
    for target, row in enumerate(rows):
        for head in range(2):
            nodes = [*row, target]
            score = [
                torch.nn.functional.leaky_relu(
                    values[node, head] @ layer.of_source[head] + values[target, head] @ layer.of_target[head], 0.2
                )
                for node in nodes
            ]
            weights = torch.stack(score).softmax(0)
            expected = sum(w * values[node, head] for w, node in zip(weights, nodes, strict=True))
            assert torch.allclose(found[target].view(2, 4)[head], expected, atol=1e-6)


def test_attention_does_not_overflow():
    layer, features = gat.Attention(6, 8, heads=2), 1e4 * torch.ones(5, 6)
    given = hop([[1, 4], [0]], 5)
    assert layer(features, features[:2], given.idx, given.indptr).isfinite().all()


def test_gin_adds_its_neighbours():
    run = open_small(model=ModelName.GIN, fanouts=(3,), inference_fanouts=(3,))
    model = run.make_model(1).eval()
    features, given = torch.randn(4, 16), hop([[1, 2, 3], []], 4)
    summed = features[:2] + torch.stack([features[1:].sum(0), torch.zeros(16)])
    assert torch.allclose(model(features, (given,)), model.networks[0](summed), atol=1e-6)


@pytest.mark.parametrize("name", list(ModelName))
def test_each_layer_reads_its_own_hop(name):
    """The seeds' logits by hand: the first layer on the outer hop, the second on what it wrote."""
    model = open_small(model=name).make_model(1).eval()
    features, outer, inner = torch.randn(6, 16), hop([[3, 4], [5], [1, 0]], 6), hop([[2], [0, 1]], 3)
    middle = model.layer(0, features, features[:3], outer.idx, outer.indptr)
    expected = model.layer(1, middle, middle[:2], inner.idx, inner.indptr)
    assert torch.equal(model(features, (outer, inner)), expected)
    assert expected.shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, ComputeType.FP32) for name in ModelName), (ModelName.SAGE, ComputeType.BF16)]
)
def test_each_model_learns(name, precision):
    result = train_small(model=name, precision=precision, epochs=8, hidden=32, dropout=0.2)
    assert losses(result)[-1] < 0.8 * losses(result)[0]
    assert result.epochs[-1].accuracy > 0.55
    assert result.accuracies[0] > 0.55  # chance is a quarter


def test_first_weights_depend_on_the_trial_alone():
    def weights(**changes):
        return torch.cat([p.flatten() for p in open_small(**changes).make_model(1).parameters()])

    assert torch.equal(weights(), weights(aggregate="spmm", epochs=9))
    assert not torch.equal(weights(), weights(seed=1))
