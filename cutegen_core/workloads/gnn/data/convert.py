"""Convert a graph on disk to an .npz file, or to a folder that is mapped without being read."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphFacts
from cutegen_core.workloads.gnn.data.npz import write_npz
from cutegen_core.workloads.gnn.data.open import read_raw
from cutegen_core.workloads.gnn.data.processed import is_processed, read_processed, repeated_edges, write_processed
from cutegen_core.workloads.gnn.data.raw import RawRows


@dataclass(frozen=True)
class Converted:
    """What was written.

    Attributes:
        repeated_edges: how many edges were left out since they occurred before.
    """

    path: Path
    facts: GraphFacts
    repeated_edges: int


def convert(path: Path, out: Path, *, undirected: bool = False, half: bool = False) -> Converted:
    """Write the graph at `path` to `out`, which does not exist yet: an .npz file by its ending, else a folder.

    Args:
        undirected: every edge of an edge list also counts in the other direction.
        half: features are written as float16.

    Raises:
        UsageError: the graph cannot be read, or `out` exists.
    """
    if out.exists():
        raise UsageError(f"{out} exists. Name a file or folder that does not.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out.absolute().parent} is no folder.")
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}-") as scratch:
        folder = path if is_processed(path) else _process(path, Path(scratch) / "graph", undirected, half)
        graph, repeated = read_processed(folder), repeated_edges(folder)
        if out.suffix == ".npz":
            write_npz(graph, Path(scratch) / out.name)
            os.link(Path(scratch) / out.name, out)
        elif folder == path:
            raise UsageError(f"{path} is converted already; copy the folder.")
        else:
            os.rename(folder, out)
        return Converted(out, graph.facts(), repeated)


def _process(path: Path, folder: Path, undirected: bool, half: bool) -> Path:
    raw = read_raw(path)
    if undirected and isinstance(raw.edges, RawRows):
        raise UsageError(f"{path} holds rows of neighbours, not edges: both directions must be in it.")
    features = replace(raw.features, dtype=np.dtype(np.float16)) if half else raw.features
    folder.mkdir()
    write_processed(replace(raw, undirected=raw.undirected or undirected, features=features), folder)
    return folder
