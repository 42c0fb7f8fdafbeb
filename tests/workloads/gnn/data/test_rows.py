"""Rows built from edges are those that numpy builds, and building needs little memory beside them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.rows import Chunk, build_rows, id_dtype
from tests.places import ROOT


def in_chunks(source, target, size):
    def read():
        for first in range(0, len(source), size):
            yield Chunk(source[first : first + size], target[first : first + size])

    return read


def by_numpy(nodes, source, target, undirected):
    pairs = np.stack([target, source], 1)
    both = np.concatenate([pairs, pairs[:, ::-1]]) if undirected else pairs
    kept = np.unique(both, axis=0)
    return np.concatenate([[0], np.cumsum(np.bincount(kept[:, 0], minlength=nodes))]), kept[:, 1], len(both) - len(kept)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
@pytest.mark.parametrize(("nodes", "edges", "size"), [(1, 5, 2), (50, 0, 3), (50, 4000, 7), (3000, 20_000, 999)])
def test_rows_are_those_of_numpy(dtype, undirected, order, nodes, edges, size):
    random = np.random.default_rng(edges)
    source, target = (nodes * random.random((2, edges)) ** 3).astype(np.int64)
    if order != "random":
        place = np.lexsort((source, target))[:: 1 if order == "ascending" else -1]
        source, target = source[place].copy(), target[place].copy()
    rows = build_rows(
        "edges", nodes, in_chunks(source, target, size), undirected=undirected,
        allocate=lambda count, _: np.empty(count, dtype),
    )  # fmt: skip
    indptr, indices, repeated = by_numpy(nodes, source, target, undirected)
    assert rows.indptr.tolist() == indptr.tolist()
    assert rows.indices.dtype == dtype
    assert rows.indices.tolist() == indices.tolist()
    assert rows.repeated == repeated


@pytest.mark.parametrize(("source", "target"), [(0, 9), (9, 0), (-1, 0), (0, -1), (2**62, 0), (0, -(2**63))])
@pytest.mark.parametrize("undirected", [False, True])
def test_an_end_that_is_no_node_is_named_with_its_edge(source, target, undirected):
    sources, targets = np.zeros(20, np.int64), np.ones(20, np.int64)
    sources[13], targets[13] = source, target
    with pytest.raises(UsageError, match=rf"here: edge 13 names node {source or target}; there are nodes 0 to 8"):
        build_rows("here", 9, in_chunks(sources, targets, 4), undirected=undirected)


def test_ids_are_as_narrow_as_they_may_be():
    assert id_dtype(2**31) is np.int32
    assert id_dtype(2**31 + 1) is np.int64


_CONVERT = """
import resource, sys
from pathlib import Path
import numpy as np
from cutegen_core.workloads.gnn.data.convert import convert
from cutegen_core.workloads.gnn.data.open import open_path
from cutegen_core.workloads.gnn.native.abi import native
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
import pyarrow.parquet
native()
used = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[3]) * 2**20,) * 2)
path, out = map(Path, sys.argv[1:3])
facts = convert(path, out).facts
graph = open_path(out)
sampled = Sampler(graph, (10, 10)).sample(np.arange(50), 0)
print(facts.nodes, facts.edges, graph.features[sampled.nodes].shape[0] == len(sampled.nodes))
try:
    np.ones(graph.features.shape, graph.features.dtype)
except MemoryError:
    print("larger than memory")
"""


def test_a_graph_larger_than_memory_is_converted_and_sampled(tmp_path):
    """The limit holds for memory of the process's own, not for mapped files."""
    nodes, width, edges = 100_000, 512, 4_000_000
    random = np.random.default_rng(0)
    indptr = np.arange(nodes + 1) * (edges // nodes)
    np.savez(
        tmp_path / "g.npz", indptr=indptr, indices=random.integers(0, nodes, edges),
        features=np.ones((nodes, width), np.float32), labels=np.arange(nodes) % 5,
        train=np.arange(10), valid=np.arange(10, 20), test=np.arange(20, 30),
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, tmp_path / "g.npz", tmp_path / "out", "130"], cwd=ROOT, env=os.environ,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{nodes} {edges} True", "larger than memory"]
