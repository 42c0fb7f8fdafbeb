"""Padded batches are batches: their own rows are untouched, the added ones read and reach nothing real."""

import numpy as np
import pytest

from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from tests.later import Later
from tests.workloads.gnn.graphs import skewed

fixed = Later("cutegen_core.workloads.gnn.sampling.fixed")
loading = Later("cutegen_core.workloads.gnn.sampling.loader")

GRAPH = skewed(3000, 40_000)
FANOUTS = (6, 4, 3)


def batches(count, size=64, seed=0):
    random = np.random.default_rng(seed)
    return [random.choice(3000, size, replace=False) for _ in range(count)]


def layout_of(sampler, given, *, layered):
    return fixed.FixedLayout(fixed.fixed_sizes([sampler.sample(s, n) for n, s in enumerate(given)]), layered=layered)


def through(sampler, layout, given, **more):
    return loading.BatchLoader(
        GRAPH, sampler, given, threads=2, slots=2, pin=False, slice_features=True, layout=layout, **more
    )


@pytest.mark.parametrize("layered", [False, True])
def test_a_padded_batch_has_the_batch_and_rows_of_its_own(layered):
    """The last batch is short, as that of an epoch; slots are used again."""
    sampler = Sampler(GRAPH, FANOUTS, layered=layered)
    layout = layout_of(sampler, batches(8), layered=layered)
    given = [*batches(5, seed=1), np.arange(7)]
    with through(sampler, layout, given) as loaded:
        for number, batch in enumerate(loaded):
            assert batch.fixed
            check(batch, sampler.sample(given[number], number), layout, given[number])
            batch.release()


def check(batch, want, layout, seeds):
    sampled, count = batch.sampled, len(want.nodes)
    assert (len(sampled.nodes), batch.nodes, sampled.edges) == (layout.nodes, count, want.edges)
    assert sampled.nodes[:count].tolist() == want.nodes.tolist()
    assert set(sampled.nodes[count:].tolist()) <= set(want.nodes.tolist())
    assert batch.labels.tolist() == GRAPH.labels[seeds].tolist() + [fixed.IGNORED] * (layout.seeds - len(seeds))
    assert np.array_equal(batch.features[:count].numpy(), GRAPH.features[want.nodes])
    assert len(batch.features) == layout.nodes
    assert bool(batch.features.isfinite().all())
    whole = batch.packed.whole.numpy()
    for hop, real, place, starts in zip(sampled.hops, want.hops, layout.hops, batch.packed.hops, strict=True):
        assert (hop.targets, hop.sources, len(hop.idx)) == (place.targets, place.sources, place.entries)
        assert hop.indptr[: real.targets + 1].tolist() == real.indptr.tolist()
        assert hop.idx[: len(real.idx)].tolist() == real.idx.tolist()
        assert hop.indptr[-1] == len(hop.idx)
        added = np.diff(hop.indptr[real.targets :])
        assert added.min() >= 0
        assert added.max() - added.min() <= 1  # no hub
        assert ((hop.idx[len(real.idx) :] >= real.sources) & (hop.idx[len(real.idx) :] < hop.sources)).all()
        assert np.shares_memory(whole[starts[0] :], hop.idx)
        assert np.shares_memory(whole[starts[1] :], hop.indptr)
        assert (starts[0] % 32, starts[1] % 32) == (0, 0)
    for inner, outer in zip(sampled.hops[1:], sampled.hops[:-1], strict=True):
        assert inner.sources == outer.targets


@pytest.mark.parametrize("layered", [False, True])
def test_a_batch_that_does_not_fit_stays_as_it_is(layered):
    """It is drawn again into memory that grows, and the slot pads the next one as before."""
    sampler = Sampler(GRAPH, FANOUTS, layered=layered)
    layout = layout_of(sampler, batches(4, size=16), layered=layered)
    given = [np.arange(16), np.arange(800), np.arange(16, 32), np.arange(500)]
    with through(sampler, layout, given) as loaded:
        found = []
        for number, batch in enumerate(loaded):
            want = sampler.sample(given[number], number)
            found.append(batch.fixed)
            assert batch.sampled.nodes[: batch.nodes].tolist() == want.nodes.tolist()
            assert batch.labels.tolist()[: len(given[number])] == GRAPH.labels[given[number]].tolist()
            if not batch.fixed:
                assert len(batch.sampled.nodes) == batch.nodes == len(batch.features)
            batch.release()
    assert found == [True, False, True, False]


def test_sizes_leave_room_for_batches_that_were_not_seen():
    """Of 300 other batches every one fits, though the largest of 16 would not hold them."""
    sampler = Sampler(GRAPH, FANOUTS)
    seen = [sampler.sample(seeds, number) for number, seeds in enumerate(batches(16, seed=2))]
    layout, buffers = fixed.FixedLayout(fixed.fixed_sizes(seen), layered=False), None
    largest = max(len(sampled.hops[0].idx) for sampled in seen)
    buffers = fixed.FixedBuffers(layout, pin=False)
    above = 0
    for number, seeds in enumerate(batches(300, seed=3)):
        sampled = buffers.pad(sampler.sample_into(seeds, number, buffers))
        above += sampled.edges > largest
        assert len(sampled.hops[0].idx) < 1.2 * largest + 128
    assert above > 0
