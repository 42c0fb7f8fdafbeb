"""Edges per second and core of the sampler, on graphs of the sizes that SALIENT and PyG were measured on.

    python -m benchmarks.gnn.sampler [--rounds 5] [--batches 8] [--only-transposed]

Contenders take turns (A B C, then C B A) on the same seeds. A figure is edges per second of processor time of the
sampling thread; the median of the rounds counts. torch-sparse and pyg-lib take part where they can be imported; PyG's
NeighborLoader calls one of these two. Every contender draws fan-outs 15, 10, 5 for batches of 1024 seeds, without
replacement, for the newest nodes only, but for "native, layered", which draws for all known nodes as SALIENT does.
`--only-transposed` measures only what transposing a batch's inner hops adds, on the graph of a million nodes, and
replaces that part of the results.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.conditions import replace_parts, write
from cutegen_core.workloads.gnn.data.generate import generate_blocks, generate_power_law
from cutegen_core.workloads.gnn.graph import GraphData, Ids
from cutegen_core.workloads.gnn.sampling.plain import PlainSampler
from cutegen_core.workloads.gnn.sampling.sampler import Buffers, Sampler, plain_memory

FANOUTS, BATCH = (15, 10, 5), 1024
GRAPHS = {
    "power law, 200k nodes": (generate_power_law, 200_000, 22),
    "power law, 1M nodes": (generate_power_law, 1_000_000, 22),
    "blocks, 1M nodes": (generate_blocks, 1_000_000, 22),
}
"""Blocks have no hubs: every fan-out is drawn in full, and the fewest nodes occur again."""
WIDTH, CLASSES = 128, 8

Contender = Callable[[Ids, int], int]
"""Samples a batch; returns how many edges it drew."""


def contenders(graph: GraphData) -> dict[str, Contender]:
    found: dict[str, Contender] = {}
    for name, layered in (("native", False), ("native, layered", True)):
        found[name] = native_contender(Sampler(graph, FANOUTS, layered=layered))
    plain = PlainSampler(graph, FANOUTS)
    found["standard library"] = lambda seeds, number: plain.sample(seeds, number).edges
    if importlib.util.find_spec("torch_sparse"):
        found["torch-sparse"] = torch_sparse_contender(graph)
    if importlib.util.find_spec("pyg_lib"):
        found["pyg-lib"] = pyg_lib_contender(graph)
    return found


def native_contender(sampler: Sampler) -> Contender:
    buffers = Buffers(plain_memory)
    return lambda seeds, number: sampler.sample_into(seeds, number, buffers).edges


def torch_sparse_contender(graph: GraphData) -> Contender:
    import torch
    import torch_sparse  # noqa: F401 - registers the operator

    indptr, indices = (torch.from_numpy(np.ascontiguousarray(a, np.int64)) for a in (graph.indptr, graph.indices))

    def sample(seeds: Ids, number: int) -> int:
        drawn = torch.ops.torch_sparse.neighbor_sample(
            indptr, indices, torch.from_numpy(seeds), list(FANOUTS), False, True
        )
        return len(drawn[1])

    return sample


def pyg_lib_contender(graph: GraphData) -> Contender:
    import pyg_lib
    import torch

    indptr, indices = (torch.from_numpy(np.ascontiguousarray(a, np.int64)) for a in (graph.indptr, graph.indices))

    def sample(seeds: Ids, number: int) -> int:
        drawn = pyg_lib.sampler.neighbor_sample(indptr, indices, torch.from_numpy(seeds), list(FANOUTS))
        return len(drawn[0])

    return sample


def measure(sample: Contender, batches: list[Ids], first: int) -> float:
    """Million edges per second of this thread's processor time."""
    start = time.thread_time()
    edges = sum(sample(seeds, first + number) for number, seeds in enumerate(batches))
    return edges / (time.thread_time() - start) / 1e6


def compare(graph: GraphData, rounds: int, count: int) -> Mapping[str, Any]:
    found = contenders(graph)
    random = np.random.default_rng(0)
    batches = [random.choice(graph.nodes, BATCH, replace=False) for _ in range(count)]
    figures: dict[str, list[float]] = {name: [] for name in found}
    for sample in found.values():
        sample(batches[0], 0)
    for number in range(rounds):
        names = list(found) if number % 2 == 0 else list(found)[::-1]
        for name in names:
            few = batches if name.startswith("native") else batches[:2]
            figures[name].append(measure(found[name], few, number * count))
    medians = {name: statistics.median(each) for name, each in figures.items()}
    return {
        "graph": graph.facts().__dict__ | {"largest_degree": int(np.diff(graph.indptr).max())},
        "one_batch": one_batch(graph, batches[0]),
        "million_edges_per_second_and_core": {
            name: {"median": round(medians[name], 2), "rounds": [round(each, 2) for each in figures[name]]}
            for name in found
        },
        "native_over": {
            name: round(medians["native"] / median, 1) for name, median in medians.items() if name != "native"
        },
        "prepare": prepare(graph, batches),
    }


def one_batch(graph: GraphData, seeds: Ids) -> Mapping[str, Any]:
    sampled = Sampler(graph, FANOUTS).sample(seeds, 0)
    feature_mb = len(sampled.nodes) * graph.width * graph.features.itemsize / 1e6
    return {"nodes": len(sampled.nodes), "edges": sampled.edges, "features_mb": round(feature_mb, 1)}


def prepare(graph: GraphData, batches: list[Ids]) -> Mapping[str, Any]:
    """Time the loader with one and two threads: milliseconds a batch on the clock, and of a thread's work per batch."""
    from cutegen_core.workloads.gnn.sampling.loader import BatchLoader
    from cutegen_core.workloads.gnn.sampling.slots import SlotPool

    sampler, pool = Sampler(graph, FANOUTS), SlotPool(pin=False)
    seeds = batches * 4
    result: dict[str, Any] = {}
    for threads in (1, 2, 1, 2):
        sampling, slicing = [], []
        with BatchLoader(
            graph, sampler, seeds, threads=threads, slots=threads + 2, pin=False, slice_features=True, pool=pool
        ) as loader:
            start = time.perf_counter()
            for batch in loader:
                spans = [span.end_s - span.start_s for span in batch.prepared]
                sampling.append(1e3 * spans[0])
                slicing.append(1e3 * spans[1])
                batch.release()
            elapsed = 1e3 * (time.perf_counter() - start) / len(seeds)
        result[f"{threads} threads"] = {
            "ms_a_batch": round(elapsed, 2),
            "sampling_ms": round(statistics.median(sampling), 2),
            "slicing_ms": round(statistics.median(slicing), 2),
        }
    return result


def transposing() -> Mapping[str, Any]:
    """Return milliseconds of a thread's processor time for a batch: drawing it, and transposing its inner hops."""
    from cutegen_core.workloads.gnn.sampling.packed import PackedBuffers

    name = "power law, 1M nodes"
    generate, nodes, degree = GRAPHS[name]
    graph = generate(nodes, degree, CLASSES, WIDTH, 0)
    sampler, buffers, random = Sampler(graph, FANOUTS), PackedBuffers(pin=False), np.random.default_rng(0)
    drawing, turning, entries = [], [], []
    for number in range(-4, 24):
        seeds = random.choice(graph.nodes, BATCH, replace=False)
        start = time.thread_time()
        sampled = sampler.sample_into(seeds, number, buffers)
        drawn = time.thread_time()
        if not buffers.reserve_transposed(sampled):
            sampled = sampler.sample_into(seeds, number, buffers)
            drawn = time.thread_time()
        buffers.transpose(sampled)
        if number >= 0:
            drawing.append(1e3 * (drawn - start))
            turning.append(1e3 * (time.thread_time() - drawn))
            entries.append([len(hop.idx) for hop in sampled.hops])
    return {
        "graph": name, "drawing_ms": round(statistics.median(drawing), 2),
        "transposing_ms": round(statistics.median(turning), 2), "entries_of_hops": entries[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=8, help="batches a round")
    parser.add_argument("--only-transposed", action="store_true")
    given = parser.parse_args()
    if given.only_transposed:
        found = transposing()
        print(found)
        return replace_parts("gnn_sampler", {"transposed": found})
    result: dict[str, Any] = {"fanouts": FANOUTS, "batch": BATCH, "graphs": {}}
    for name, (generate, nodes, degree) in GRAPHS.items():
        start = time.perf_counter()
        graph = generate(nodes, degree, CLASSES, WIDTH, 0)
        seconds = time.perf_counter() - start
        result["graphs"][name] = {"generated_s": round(seconds, 1)} | dict(compare(graph, given.rounds, given.batches))
        print(name, result["graphs"][name]["million_edges_per_second_and_core"], result["graphs"][name]["prepare"])
    write("gnn_sampler", result)


if __name__ == "__main__":
    main()
