"""Generated graphs have the statistics that their models promise."""

import numpy as np
import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphSettings
from cutegen_core.workloads.gnn.data.generate import (
    generate_blocks,
    generate_power_law,
    same_class_share,
    separation,
)
from cutegen_core.workloads.gnn.data.open import open_graph

NODES, DEGREE, CLASSES, WIDTH = 20_000, 16, 8, 32
KINDS = pytest.mark.parametrize("generate", [generate_blocks, generate_power_law])


@pytest.fixture(scope="module")
def graphs():
    return {generate: generate(NODES, DEGREE, CLASSES, WIDTH, 0) for generate in (generate_blocks, generate_power_law)}


def ends(graph):
    return graph.indices.astype(np.int64), np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))


@KINDS
def test_edges_are_simple_and_in_both_directions(graphs, generate):
    source, target = ends(graphs[generate])
    assert (source != target).all()
    key = source * NODES + target
    assert len(np.unique(key)) == len(key)
    assert (np.sort(key) == np.sort(target * NODES + source)).all()


def test_blocks_have_the_degrees_and_the_shares_of_the_model(graphs):
    graph = graphs[generate_blocks]
    degrees = np.diff(graph.indptr)
    assert degrees.mean() == pytest.approx(DEGREE, rel=0.01)
    assert degrees.var() == pytest.approx(DEGREE, rel=0.05)  # as Poisson's
    source, target = ends(graph)
    own, other = graph.labels[source], graph.labels[target]
    assert (own == other).mean() == pytest.approx(same_class_share(CLASSES, DEGREE), abs=0.005)
    different = np.bincount(own[own != other] * CLASSES + other[own != other], minlength=CLASSES**2)
    assert np.ptp(different[different > 0]) < 0.1 * different.max()


def test_power_law_degrees_have_the_exponent_of_the_model(graphs):
    graph = graphs[generate_power_law]
    degrees = np.sort(np.diff(graph.indptr))[::-1]
    assert degrees.mean() == pytest.approx(DEGREE, rel=0.05)
    assert degrees[0] > 20 * DEGREE
    # The slope of degree over rank is -2/3, that is exponent 2.5; the head is flattened, the tail is noisy.
    ranks = np.arange(50, 2000)
    slope = np.polyfit(np.log(ranks + 10), np.log(degrees[ranks]), 1)[0]
    assert slope == pytest.approx(-2 / 3, abs=0.07)
    assert abs(np.corrcoef(np.arange(NODES), np.diff(graph.indptr))[0, 1]) < 0.05  # hubs lie anywhere


@KINDS
def test_features_alone_are_right_half_of_the_time_and_neighbours_far_more_often(graphs, generate):
    graph = graphs[generate]
    features = graph.features.astype(np.float32)
    means = np.stack([features[graph.labels == each].mean(0) for each in range(CLASSES)])
    assert (np.argmax(features @ means.T, 1) == graph.labels).mean() == pytest.approx(0.5, abs=0.02)
    source, target = ends(graph)
    votes = np.bincount(target * CLASSES + graph.labels[source], minlength=NODES * CLASSES).reshape(NODES, CLASSES)
    assert (np.argmax(votes + 0.1 * features @ means.T, 1) == graph.labels).mean() > 0.85


@KINDS
def test_classes_and_splits_are_balanced(graphs, generate):
    graph = graphs[generate]
    assert np.ptp(np.bincount(graph.labels)) <= 1
    splits = graph.splits
    assert [len(each) for each in (splits.train, splits.valid, splits.test)] == [10_000, 5_000, 5_000]
    together = np.concatenate([splits.train, splits.valid, splits.test])
    assert (np.sort(together) == np.arange(NODES)).all()
    assert all((np.diff(each) > 0).all() for each in (splits.train, splits.valid, splits.test))


@pytest.mark.parametrize("source", ["blocks", "power-law"])
def test_a_seed_gives_one_graph(source):
    one, same, other = (
        open_graph(GraphSettings(source, nodes=500, degree=6, classes=3, width=8, seed=seed)) for seed in (1, 1, 2)
    )
    for name in ("indptr", "indices", "features", "labels"):
        assert (getattr(one, name) == getattr(same, name)).all()
    assert one.indices.tolist() != other.indices.tolist()


@pytest.mark.parametrize(("classes", "degree"), [(1, 4), (2, 1), (2, 30), (3, 5), (40, 16)])
def test_any_number_of_classes(classes, degree):
    graph = generate_blocks(2000, degree, classes, 64, 0)
    assert graph.classes == classes
    assert sorted(set(graph.labels.tolist())) == list(range(classes))
    assert separation(classes) >= 0
    assert 1 / classes <= same_class_share(classes, degree) <= 1


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"nodes": 31}, {"nodes": -5}, {"degree": 0}, {"degree": 3000}, {"classes": 0}, {"classes": 65},
     {"width": 0}, {"seed": -1}],
)  # fmt: skip
def test_sizes_that_make_no_graph_are_refused(wrong):
    settings = {"nodes": 2000, "degree": 8, "classes": 8, "width": 64, "seed": 0} | wrong
    with pytest.raises(UsageError, match="cannot generate a graph of"):
        open_graph(GraphSettings("blocks", **settings))
