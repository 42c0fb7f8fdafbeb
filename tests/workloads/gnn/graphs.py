"""Graphs for the tests, and what a batch must be, checked without the code under test."""

import hashlib

import numpy as np

from cutegen_core.workloads.gnn.graph import GraphData, Splits


def graph_of(rows, *, dtype=np.int32, width=4):
    """Return a graph with these rows of in-neighbours; the features of node v begin with v."""
    nodes = len(rows)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.concatenate([np.asarray(row, dtype) for row in rows]) if indptr[-1] else np.empty(0, dtype)
    features = np.arange(nodes, dtype=np.float32)[:, None] + np.linspace(0, 0.5, width, dtype=np.float32)
    labels = np.arange(nodes, dtype=np.int64) % 3
    third = np.split(np.arange(nodes), [nodes // 3, 2 * nodes // 3])
    return GraphData("test", indptr, indices, features, labels, 3, Splits(*third))


def skewed(nodes, edges, *, seed=0, dtype=np.int32, width=4):
    """Return a graph with hubs, rows without neighbours and no repeated edge."""
    random = np.random.default_rng(seed)
    weight = 1 / np.arange(1, nodes + 1) ** 0.6
    weight /= weight.sum()
    pairs = np.unique(random.choice(nodes, (edges, 2), p=weight), axis=0)
    rows = np.split(pairs[:, 1], np.cumsum(np.bincount(pairs[:, 0], minlength=nodes))[:-1])
    return graph_of(rows, dtype=dtype, width=width)


def check_batch(graph, sampled, seeds, fanouts, *, layered):
    """Check that each row holds the wanted number of its node's neighbours, nothing is twice, layers fit together."""
    nodes = sampled.nodes
    assert nodes[: len(seeds)].tolist() == list(seeds)
    assert len(np.unique(nodes)) == len(nodes)
    assert len(sampled.hops) == len(fanouts)
    assert sampled.hops[-1].targets == len(seeds)
    assert sampled.hops[0].sources == len(nodes)
    for inner, outer in zip(sampled.hops[1:], sampled.hops[:-1], strict=True):
        assert inner.sources == outer.targets
    known = [hop.targets for hop in reversed(sampled.hops)]
    drawn = 0
    for hop, fanout in zip(reversed(sampled.hops), fanouts, strict=True):
        assert len(hop.indptr) == hop.targets + 1
        assert hop.indptr[0] == 0
        assert hop.indptr[-1] == len(hop.idx)
        assert not len(hop.idx) or hop.idx.max() < hop.sources
        for row in range(hop.targets):
            wanted = fanout if layered else fanouts[next(h for h, count in enumerate(known) if row < count)]
            found = nodes[hop.idx[hop.indptr[row] : hop.indptr[row + 1]]]
            start, end = graph.indptr[nodes[row] : nodes[row] + 2]
            assert len(found) == min(wanted, end - start)
            assert len(set(found.tolist())) == len(found)
            assert set(found.tolist()) <= set(graph.indices[start:end].tolist())
        drawn += len(hop.idx)
    assert sampled.edges == (drawn if layered else len(sampled.hops[0].idx))


def digest(sampled):
    made = hashlib.sha256(sampled.nodes.tobytes())
    for hop in sampled.hops:
        made.update(hop.indptr.tobytes() + hop.idx.tobytes() + bytes([hop.targets % 251, hop.sources % 251]))
    return made.hexdigest()


def chi_square_z(counts, drawn_of=None):
    """Return how many standard deviations the chi-square of counts that should be equal lies above its mean.

    The cube root of chi-square is nearly normal (Wilson, Hilferty 1931). With `drawn_of` = (drawn, of) the draws were
    without replacement, and vary less by (of - drawn) / (of - 1).
    """
    counts = np.asarray(counts, float)
    free = len(counts) - 1
    found = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    if drawn_of:
        found *= (drawn_of[1] - 1) / (drawn_of[1] - drawn_of[0])
    spread = 2 / (9 * free)
    return ((found / free) ** (1 / 3) - (1 - spread)) / spread**0.5
