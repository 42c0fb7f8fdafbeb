"""Transposed rows are the rows turned over: by any graph, padded or not, whatever the number of threads."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.workloads.gnn.sampling.batch import Hop, Sampled
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from cutegen_core.workloads.gnn.sampling.transposed import place_behind, room_of, transpose
from tests.later import Later
from tests.workloads.gnn.graphs import skewed

loading = Later("cutegen_core.workloads.gnn.sampling.loader")
fixed = Later("cutegen_core.workloads.gnn.sampling.fixed")

GRAPH = skewed(3000, 40_000)
FANOUTS = (6, 4, 3)


def seeds(count, size=64, seed=0):
    random = np.random.default_rng(seed)
    return [random.choice(3000, size, replace=False) for _ in range(count)]


def check(hop):
    """Check it by the definition: the pairs (entry, row), in the order of entries and then of rows."""
    rows = np.repeat(np.arange(hop.targets), np.diff(hop.indptr))
    order = np.argsort(hop.idx, kind="stable")
    assert hop.transposed.users.tolist() == rows[order].tolist()
    assert hop.transposed.starts.tolist() == [0, *np.cumsum(np.bincount(hop.idx, minlength=hop.sources))]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_rows(data):
    """Empty rows, sources that no row reads, one entry several times in a row, no entry at all; dirty memory."""
    sources = data.draw(st.integers(1, 30))
    rows = data.draw(st.lists(st.lists(st.integers(0, sources - 1), max_size=40), min_size=1, max_size=30))
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    idx = np.array([entry for row in rows for entry in row], np.int64)
    outer = Hop(np.array([0, 0]), np.empty(0, np.int64), 1, 1)
    sampled = Sampled(np.arange(30), (outer, Hop(indptr, idx, len(rows), sources)), len(idx))
    start = data.draw(st.integers(0, 100))
    whole = np.full(start + room_of(sampled.hops) + 50, -7)
    places, end = place_behind(start, [(len(hop.idx), hop.sources) for hop in sampled.hops])
    found = transpose(sampled, whole, places)
    assert found.hops[0].transposed is None
    check(found.hops[1])
    assert set(whole[:start]) | set(whole[end:]) == {-7}


def batches(given, threads, *, layered, layout=None, transposed=True):
    """Return what the loader prepares: (digest with the transposed rows, fits the layout), checked."""
    sampler, found = Sampler(GRAPH, FANOUTS, layered=layered), []
    with loading.BatchLoader(
        GRAPH, sampler, given, threads=threads, slots=threads + 1, pin=False, slice_features=True, layout=layout,
        transposed=transposed,
    ) as loaded:  # fmt: skip
        for batch in loaded:
            found.append((digest(batch), batch.fixed))
            batch.release()
    return found


def digest(batch):
    """Return the digest of all parts as they lie in the one memory that travels."""
    made, whole = hashlib.sha256(), batch.packed.whole.numpy()
    assert batch.sampled.hops[0].transposed is None
    for hop, place in zip(batch.sampled.hops, batch.packed.hops, strict=True):
        parts = [(place.idx, hop.idx), (place.indptr, hop.indptr)]
        if hop.transposed is not None:
            check(hop)
            parts += zip(place.transposed, (hop.transposed.users, hop.transposed.starts), strict=True)
        for start, part in parts:
            assert whole[start : start + len(part)].tolist() == part.tolist()
            made.update(part.tobytes())
    assert all(start % 32 == 0 for place in batch.packed.hops for start in place.transposed or ())
    assert sum(hop.transposed is not None for hop in batch.sampled.hops) in (0, len(FANOUTS) - 1)
    return made.hexdigest()


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_batches_are_the_same_with_any_number_of_threads(layered, padded):
    """The third one is larger than the layout and than any memory so far, and stays as it is."""
    sampler = Sampler(GRAPH, FANOUTS, layered=layered)
    drawn = [sampler.sample(each, number) for number, each in enumerate(seeds(8))]
    layout = fixed.FixedLayout(fixed.fixed_sizes(drawn), layered=layered, transposed=True) if padded else None
    given = [*seeds(2, seed=1), np.arange(1500), *seeds(4, seed=2), np.arange(7)]
    one, two, three = (batches(given, threads, layered=layered, layout=layout) for threads in (1, 2, 3))
    assert one == two == three
    assert [fits for _, fits in one] == [padded, padded, False, *[padded] * 5]
    plain = batches(given, 2, layered=layered, layout=layout, transposed=False)
    assert [fits for _, fits in plain] == [fits for _, fits in one]
    assert not {made for made, _ in plain} & {made for made, _ in one}


def test_a_layout_without_transposed_rows_is_no_longer():
    """Room for them lies behind everything else, and does not travel unless it is filled."""
    drawn = [Sampler(GRAPH, FANOUTS).sample(each, number) for number, each in enumerate(seeds(4))]
    plain, both = (fixed.FixedLayout(fixed.fixed_sizes(drawn), layered=False, transposed=t) for t in (False, True))
    buffers = fixed.FixedBuffers(both, pin=False)
    assert both.total > plain.total == both.before_transposed
    assert len(buffers.packed(transposed=False).whole) == plain.total
    assert len(buffers.packed(transposed=True).whole) == both.total == buffers.packed(transposed=False).room
