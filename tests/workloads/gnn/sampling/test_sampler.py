"""The sampler draws valid, unbiased, reproducible neighbourhoods, fast, and refuses what is damaged."""

import ctypes
import time
from itertools import combinations

import numpy as np
import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.generate import generate_power_law
from cutegen_core.workloads.gnn.graph import GraphData
from cutegen_core.workloads.gnn.sampling.plain import PlainSampler
from cutegen_core.workloads.gnn.sampling.sampler import Buffers, Sampler, plain_memory
from tests.workloads.gnn.graphs import check_batch, chi_square_z, digest, graph_of, skewed

BOTH = pytest.mark.parametrize("kind", [Sampler, PlainSampler])
MODES = pytest.mark.parametrize("layered", [False, True], ids=["frontier", "layered"])


@BOTH
@MODES
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("fanouts", [(15, 10, 5), (2,), (1, 1, 1, 1), (3, 60), (10_000, 2)])
def test_every_sample_is_a_neighbourhood(kind, layered, dtype, fanouts):
    graph = skewed(400, 6000, dtype=dtype)
    sampler = kind(graph, fanouts, layered=layered)
    for batch in range(3):
        seeds = np.random.default_rng(batch).choice(400, 17, replace=False)
        check_batch(graph, sampler.sample(seeds, batch), seeds, fanouts, layered=layered)


@BOTH
@MODES
def test_nodes_without_neighbours(kind, layered):
    graph = graph_of([[], [2], []])
    sampled = kind(graph, (3, 3), layered=layered).sample(np.array([0, 1]), 0)
    check_batch(graph, sampled, [0, 1], (3, 3), layered=layered)
    assert sampled.nodes.tolist() == [0, 1, 2]
    nothing = kind(graph_of([[], []]), (3, 3), layered=layered).sample(np.array([1]), 0)
    assert (nothing.nodes.tolist(), nothing.edges) == ([1], 0)
    empty = kind(graph, (3, 3), layered=layered).sample(np.empty(0, np.int64), 0)
    assert (len(empty.nodes), empty.edges) == (0, 0)


def drawn_positions(kind, degree, fanout, batches):
    """Return which of a node's neighbours each batch draws, by their place in its row."""
    graph = graph_of([range(1, degree + 1), *[[]] * degree], width=1)
    sampler = kind(graph, (fanout,))
    return np.array([sampler.sample(np.array([0]), batch).nodes[1:] - 1 for batch in range(batches)])


@pytest.mark.by_default(4)
@BOTH
@pytest.mark.parametrize(
    ("degree", "fanout", "batches"),
    [
        (2, 1, 4000),
        (3, 2, 3000),
        (7, 5, 3000),
        (40_000, 15, 4000),
        (200, 60, 1000),
        (50, 49, 6000),
        (40_000, 1, 20_000),
    ],
)
def test_every_neighbour_is_drawn_as_often(kind, degree, fanout, batches):
    drawn = drawn_positions(kind, degree, fanout, batches)
    for cells in {min(degree, 50), degree}:  # coarse, and each neighbour by itself: biases have both grains
        counts = np.bincount(drawn.ravel() * cells // degree, minlength=cells)
        assert len(counts) == cells
        assert abs(chi_square_z(counts, (fanout, degree))) < 4
    if degree == 40_000:
        assert abs((drawn < 25_536).mean() - 0.6384) < 0.01


@BOTH
def test_every_set_of_neighbours_is_drawn_as_often(kind):
    drawn = drawn_positions(kind, 6, 3, 4000)
    sets = {each: 0 for each in combinations(range(6), 3)}
    for row in drawn:
        sets[tuple(sorted(row))] += 1
    assert abs(chi_square_z(list(sets.values()))) < 4


def test_the_check_sees_the_bias_of_others():
    """Floyd's method with an exclusive bound, and a 16-bit random number modulo the degree."""
    random = np.random.default_rng(0)
    modulo = random.integers(0, 2**16, 60_000) % 40_000
    assert chi_square_z(np.bincount(modulo * 50 // 40_000, minlength=50)) > 20
    few_bits = random.integers(0, 2**16, 60_000) * 40_000 >> 16
    assert chi_square_z(np.bincount(few_bits, minlength=40_000)) > 10
    excluding = random.integers(0, 1, 4000)  # of two neighbours, `rand % j` with j = 1 draws the first
    assert chi_square_z(np.bincount(excluding, minlength=2)) > 20


def test_nodes_of_a_batch_draw_independently():
    """Neighbouring nodes, which have neighbouring keys, choose one of two each."""
    graph = graph_of([[20_000, 20_001]] * 20_000 + [[], []])
    sampled = Sampler(graph, (1,)).sample(np.arange(20_000), 5)
    chosen = sampled.nodes[sampled.hops[0].idx] - 20_000
    for lag in (1, 2, 3, 64):
        pairs = 2 * chosen[:-lag] + chosen[lag:]
        assert abs(chi_square_z(np.bincount(pairs, minlength=4))) < 4


@MODES
def test_a_batch_depends_on_seed_number_and_seeds_alone(layered):
    graph = skewed(3000, 60_000)
    seeds = np.random.default_rng(1).choice(3000, 200, replace=False)
    sampler = Sampler(graph, (5, 5), layered=layered, seed=3)
    first = digest(sampler.sample(seeds, 8))
    sampler.sample(seeds[::-1].copy(), 9)  # what was sampled before leaves nothing behind
    assert digest(sampler.sample(seeds, 8)) == first
    assert digest(Sampler(graph, (5, 5), layered=layered, seed=3).sample(seeds, 8)) == first
    assert digest(sampler.sample_into(seeds, 8, Buffers(plain_memory))) == first
    assert digest(sampler.sample(seeds, 7)) != first
    assert digest(Sampler(graph, (5, 5), layered=layered, seed=4).sample(seeds, 8)) != first
    wide = GraphData(
        graph.name, graph.indptr, graph.indices.astype(np.int64), graph.features, graph.labels, 3, graph.splits
    )
    assert digest(Sampler(wide, (5, 5), layered=layered, seed=3).sample(seeds, 8)) == first


class Guarded:
    """Allocates arrays with marks behind them, and counts the marks that were written to."""

    MARK = -(2**60)

    def __init__(self):
        self._whole = []

    def __call__(self, count):
        whole = np.full(count + 600, self.MARK)
        self._whole.append((whole, count))
        return whole[:count]

    def written(self):
        return sum(int((whole[count:] != self.MARK).sum()) for whole, count in self._whole)


@MODES
def test_nothing_is_written_behind_a_buffer(monkeypatch, layered):
    monkeypatch.setattr("cutegen_core.workloads.gnn.sampling.sampler._FIRST_ROOM", 1)
    graph = skewed(400, 6000)
    for fanouts in ((1,), (7, 3), (60, 2)):
        sampler, guarded = Sampler(graph, fanouts, layered=layered), Guarded()
        for count in range(1, 70):
            seeds = np.random.default_rng(count).choice(400, count, replace=False)
            small = sampler.sample_into(seeds, count, Buffers(guarded))
            assert digest(small) == digest(sampler.sample(seeds, count))
        assert guarded.written() == 0


def test_layers_draw_again_and_a_frontier_does_not():
    graph = graph_of([range(1, 1001), *[[]] * 1000])
    layered = Sampler(graph, (5, 5), layered=True).sample(np.array([0]), 0)
    outer, inner = layered.hops
    assert set(outer.idx[:5].tolist()) != set(inner.idx.tolist())
    frontier = Sampler(graph, (5, 5)).sample(np.array([0]), 0)
    assert np.shares_memory(frontier.hops[0].idx, frontier.hops[1].idx)


def test_stamps_of_the_hash_map_come_round():
    graph = skewed(3000, 60_000)
    sampler, fresh = (Sampler(graph, (2, 2)) for _ in range(2))
    sampler.sample(np.arange(3000), 0)  # leaves the stamps 1 to 3000, and base at 1
    base, count = (ctypes.c_uint32.from_address(sampler._map() + 24 + 4 * place) for place in range(2))
    assert (base.value, count.value) == (1, 3000)  # the fields of struct Map that are meant
    for almost in (2**31 - 1, 2**31 - 5000):
        base.value = almost
        for batch in range(20):
            seeds = np.arange(batch, 100)
            assert digest(sampler.sample(seeds, batch)) == digest(fresh.sample(seeds, batch))
        assert 1 <= base.value < almost


def damaged(graph, **changed):
    made = object.__new__(GraphData)
    made.__dict__.update(graph.__dict__ | changed)
    return made


def with_one(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


GRAPH = graph_of([[1, 2], [2], [0]], dtype=np.int64)


@pytest.mark.parametrize(
    ("graph", "seeds", "says"),
    [
        (GRAPH, [3], "seed 3 is no node: the graph has nodes 0 to 2"),
        (GRAPH, [-1], "seed -1 is no node"),
        (GRAPH, [2**40], "seed 1099511627776 is no node"),
        (GRAPH, [1, 1], "a seed occurs twice"),
        (damaged(GRAPH, indices=with_one(GRAPH.indices, 2, 3)), [0], "indices holds a node that does not exist"),
        (damaged(GRAPH, indices=with_one(GRAPH.indices, 2, -1)), [0], "indices holds a node that does not exist"),
        (damaged(GRAPH, indices=with_one(GRAPH.indices, 2, 2**32)), [0], "indices holds a node that does not exist"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 1, 5)), [0], "indptr does not ascend"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 1, -5)), [0], "indptr does not ascend"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 1, 4)), [1], "indptr does not ascend"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 2, 2**62)), [1], "indptr does not ascend"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 1, -5)), [1], "indptr does not ascend"),
        (damaged(GRAPH, indptr=np.array([0, 3, 6, 4])), [1], "indptr does not ascend"),
        (damaged(GRAPH, indptr=with_one(GRAPH.indptr, 1, -(2**63))), [1], "indptr does not ascend"),
    ],
)
def test_what_cannot_be_sampled_is_refused(graph, seeds, says):
    with pytest.raises(UsageError, match=says):
        Sampler(graph, (2, 2)).sample(np.array(seeds), 0)


@pytest.mark.parametrize("fanouts", [(), (0,), (5, -1)])
def test_fanouts_are_positive(fanouts):
    with pytest.raises(UsageError, match="positive"):
        Sampler(GRAPH, fanouts)


def test_native_is_at_least_four_times_as_fast_as_the_standard_library():
    graph = generate_power_law(50_000, 20, 8, 8, 0)
    random = np.random.default_rng(0)
    seeds = [random.choice(50_000, 256, replace=False) for _ in range(2)]
    native, plain = Sampler(graph, (15, 10, 5)), PlainSampler(graph, (15, 10, 5))
    buffers = Buffers(plain_memory)
    native.sample_into(seeds[0], 0, buffers)

    def seconds(sample):
        start = time.thread_time()
        edges = [sample(each, number).edges for number, each in enumerate(seeds)]
        return (time.thread_time() - start) / sum(edges)

    fast = min(seconds(lambda each, number: native.sample_into(each, number, buffers)) for _ in range(3))
    assert seconds(plain.sample) / fast >= 4
