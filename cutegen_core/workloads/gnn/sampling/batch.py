"""Define what a sampler returns: the nodes of a batch, and for every layer of the model the rows it aggregates."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.workloads.gnn.graph import Ids


@dataclass(frozen=True)
class TransposedHop:
    """The same edges by source: those of source s are users[starts[s]:starts[s + 1]].

    Attributes:
        users: int64, as many as the hop has entries: the rows that read a source, ascending.
        starts: int64 [sources + 1].
    """

    users: Ids
    starts: Ids


@dataclass(frozen=True)
class Hop:
    """The rows of one layer, as a bipartite CSR: it reads the first `sources` nodes and writes the first `targets`.

    Attributes:
        indptr: int64 [targets + 1].
        idx: int64, positions in the batch's `nodes`, all below `sources`.
        transposed: where an aggregation asked for it, and the hop is not the outermost one.
    """

    indptr: Ids
    idx: Ids
    targets: int
    sources: int
    transposed: TransposedHop | None = None


@dataclass(frozen=True)
class Sampled:
    """A batch.

    Attributes:
        nodes: int64, seeds first, then in order of discovery; no node twice.
        hops: outermost first: the model's first layer uses hops[0], and the last one writes the seeds.
        edges: how many were drawn; a layer that is the beginning of another's rows is not counted again.
    """

    nodes: Ids
    hops: tuple[Hop, ...]
    edges: int


def lay_out(nodes: Ids, indptr: Ids, idx: Ids, known: Ids, ends: Ids, *, layered: bool) -> Sampled:
    """Return the batch over arrays as the sampler fills them, without copies.

    `known[h]` nodes are known before hop h, `known[-1]` in all; hop h of layers ends at `ends[h]` in idx and has rows
    of its own in indptr. A frontier has one CSR over all rows, whose beginnings are the layers.
    """
    hops: list[Hop] = []
    row = start = 0
    for number, end in enumerate(ends):
        targets, sources = int(known[number]), int(known[number + 1])
        rows = indptr[row : row + targets + 1]
        hops.insert(0, Hop(rows, idx[start:end], targets, sources))
        if layered:
            row, start = row + targets + 1, int(end)
    edges = int(ends[-1]) if len(ends) else 0
    return Sampled(nodes[: known[-1]], tuple(hops), edges)
