"""Draw neighbourhoods with Python's standard library alone: the baseline that the native sampler is compared with."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from cutegen_core.workloads.gnn.graph import GraphData, Ids
from cutegen_core.workloads.gnn.sampling.batch import Sampled, lay_out


class PlainSampler:
    """Same interface, same distribution as `Sampler`, other random numbers."""

    def __init__(self, graph: GraphData, fanouts: Sequence[int], *, layered: bool = False, seed: int = 0) -> None:
        self._indptr, self._indices = graph.indptr.data, graph.indices.data
        self._fanouts = tuple(fanouts)
        self._layered = layered
        self._seed = seed

    def sample(self, seeds: Ids, batch: int) -> Sampled:
        """Return the batch; `seeds` are distinct nodes."""
        source = random.Random(f"{self._seed} {batch}")
        nodes: list[int] = seeds.tolist()
        position = {node: number for number, node in enumerate(nodes)}
        indptr: list[int] = [] if self._layered else [0]
        idx: list[int] = []
        known, ends, first = [len(nodes)], [], 0
        for fanout in self._fanouts:
            origin = len(idx) if self._layered else 0
            if self._layered:
                first = 0
                indptr.append(0)
            last = len(nodes)
            for node in nodes[first:last]:
                for found in self._draw(source, node, fanout):
                    if found not in position:
                        position[found] = len(nodes)
                        nodes.append(found)
                    idx.append(position[found])
                indptr.append(len(idx) - origin)
            first = last
            known.append(len(nodes))
            ends.append(len(idx))
        return lay_out(*(np.array(each, np.int64) for each in (nodes, indptr, idx, known, ends)), layered=self._layered)

    def _draw(self, source: random.Random, node: int, fanout: int) -> list[int]:
        start, end = self._indptr[node], self._indptr[node + 1]
        places = range(start, end)
        if end - start > fanout:
            return [self._indices[place] for place in source.sample(places, fanout)]
        return [self._indices[place] for place in places]
