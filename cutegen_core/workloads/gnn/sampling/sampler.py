"""Draw neighbourhoods by the native sampler; what a batch holds depends on the seed, its number and its seeds alone."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from cutegen_core.records.errors import MachineError, UsageError
from cutegen_core.workloads.gnn.graph import GraphData, Ids
from cutegen_core.workloads.gnn.native.abi import GaveUp, Output, RowsOf, address, native
from cutegen_core.workloads.gnn.sampling.batch import Sampled, lay_out

_FIRST_ROOM = 1 << 14
_WRAP = 2**64


class Buffers:
    """The arrays into which batches are written one after another; they grow to the largest."""

    def __init__(self, allocate: Callable[[int], Ids]) -> None:
        self._allocate = allocate
        self.nodes, self.indptr, self.idx = (allocate(_FIRST_ROOM) for _ in range(3))

    def grow(self, full: GaveUp) -> None:
        """Double the array that was too small; what it holds is lost."""
        name = self.named(full)
        setattr(self, name, self._allocate(2 * len(getattr(self, name))))

    @staticmethod
    def named(full: GaveUp) -> str:
        """Return the name of the array that was too small."""
        return {GaveUp.NODES_FULL: "nodes", GaveUp.INDPTR_FULL: "indptr", GaveUp.IDX_FULL: "idx"}[full]

    def as_output(self) -> Output:
        arrays = (self.nodes, self.indptr, self.idx)
        return Output(*map(address, arrays), *map(len, arrays))


def plain_memory(count: int) -> Ids:
    """Allocate an array of ids in ordinary memory."""
    return np.empty(count, np.int64)


class Sampler:
    """Draws without replacement and without bias: every set of neighbours of the wanted size is as likely.

    Frontier mode draws once for every node, at the hop after the one that found it; its layers share one CSR. Layered
    mode draws again at every hop for all nodes known so far, as SALIENT does. Any number of threads may use a sampler.
    """

    def __init__(self, graph: GraphData, fanouts: Sequence[int], *, layered: bool = False, seed: int = 0) -> None:
        if not fanouts or min(fanouts) < 1:
            raise UsageError(f"fanouts {tuple(fanouts)} must be one or more positive numbers.")
        self._graph = graph
        self._fanouts = np.array(fanouts, np.int64)
        self._layered = layered
        self._seed = seed % _WRAP
        self._rows = RowsOf(
            address(graph.indptr), address(graph.indices), graph.nodes, graph.edges, graph.indices.dtype == np.int64
        )
        self._of_thread = threading.local()

    def sample(self, seeds: Ids, batch: int) -> Sampled:
        """Return the batch in arrays of its own; `seeds` are distinct nodes, `batch` is the number of the batch."""
        buffers: Buffers | None = getattr(self._of_thread, "buffers", None)
        if buffers is None:
            buffers = self._of_thread.buffers = Buffers(plain_memory)
        nodes, indptr, idx, known, ends = self._draw(seeds, batch, buffers)
        return lay_out(nodes.copy(), indptr.copy(), idx.copy(), known, ends, layered=self._layered)

    def sample_into(self, seeds: Ids, batch: int, buffers: Buffers) -> Sampled:
        """Return the same batch as views of `buffers`, which the next call with them overwrites."""
        return lay_out(*self._draw(seeds, batch, buffers), layered=self._layered)

    def _draw(self, seeds: Ids, batch: int, buffers: Buffers) -> tuple[Ids, Ids, Ids, Ids, Ids]:
        seeds = np.ascontiguousarray(seeds, np.int64)
        hops = len(self._fanouts)
        known, ends = np.zeros(hops + 1, np.int64), np.zeros(hops, np.int64)
        while True:
            code = native().sample(
                self._map(), ctypes.byref(self._rows), address(seeds), len(seeds), address(self._fanouts), hops,
                self._layered, self._seed, batch % _WRAP, ctypes.byref(buffers.as_output()), address(known),
                address(ends),
            )  # fmt: skip
            if code >= 0:
                break
            if code >= GaveUp.IDX_FULL:
                buffers.grow(GaveUp(code))
            else:
                raise self._error(GaveUp(code), seeds)
        rows = int(known[:-1].sum()) + hops if self._layered else int(known[-2]) + 1
        return buffers.nodes[: known[-1]], buffers.indptr[:rows], buffers.idx[: ends[-1]], known, ends

    def _map(self) -> int:
        """Return this thread's hash map, which native code frees with the thread."""
        if not hasattr(self._of_thread, "map"):
            self._of_thread.map = _NodeMap()
        return int(self._of_thread.map.handle)

    def _error(self, code: GaveUp, seeds: Ids) -> Exception:
        if code is GaveUp.OUT_OF_MEMORY:
            return MachineError("there is no memory for a batch. Use smaller batches or fan-outs.")
        outside = seeds[(seeds < 0) | (seeds >= self._graph.nodes)]
        if len(outside):
            return UsageError(f"seed {outside[0]} is no node: the graph has nodes 0 to {self._graph.nodes - 1}.")
        if code is GaveUp.REPEATED:
            return UsageError("a seed occurs twice in a batch; the seeds of a batch must be distinct.")
        what = "indices holds a node that does not exist" if code is GaveUp.BAD_ID else "indptr does not ascend"
        return UsageError(f"graph {self._graph.name} is damaged: {what}. Convert it again from its source.")


class _NodeMap:
    """A hash map of native code, freed with this object."""

    def __init__(self) -> None:
        self.handle = native().map_new()
        if not self.handle:
            raise MachineError("there is no memory for the sampler's hash map.")
        weakref.finalize(self, native().map_free, self.handle)
