"""Open the graph that a run's settings name: a generated one, or one on disk, in whatever format it lies there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphSettings
from cutegen_core.workloads.gnn.data.cache import processed_of
from cutegen_core.workloads.gnn.data.edge_list import edge_list_files, is_edge_list, read_edge_list
from cutegen_core.workloads.gnn.data.generate import generate_blocks, generate_power_law
from cutegen_core.workloads.gnn.data.npz import read_npz
from cutegen_core.workloads.gnn.data.ogb import is_ogb, ogb_files, read_ogb
from cutegen_core.workloads.gnn.data.processed import is_processed, read_processed, write_processed
from cutegen_core.workloads.gnn.data.raw import RawGraph
from cutegen_core.workloads.gnn.data.tables import ENDINGS
from cutegen_core.workloads.gnn.graph import GraphData

GENERATORS = {"blocks": generate_blocks, "power-law": generate_power_law}


def open_graph(settings: GraphSettings) -> GraphData:
    """Return the graph, generated or read.

    Raises:
        UsageError: it cannot be generated or read; the text names the file and the place.
    """
    if settings.source in GENERATORS:
        return GENERATORS[settings.source](
            settings.nodes, settings.degree, settings.classes, settings.width, settings.seed
        )
    return open_path(Path(settings.source).expanduser())


def open_path(path: Path) -> GraphData:
    """Return the graph on disk; its processed form is kept in the workspace and mapped."""
    path = _whole(path)
    if is_processed(path):
        return read_processed(path)
    folder = processed_of(path, files_of(path), lambda part: write_processed(read_raw(path), part))
    return replace(read_processed(folder), name=path.stem)


def files_of(path: Path) -> list[Path]:
    """Return the files that the graph is read from."""
    if path.suffix == ".npz":
        return [path]
    return ogb_files(path) if is_ogb(path) else edge_list_files(path)


def read_raw(path: Path) -> RawGraph:
    """Return the graph as its files tell it."""
    path = _whole(path)
    if path.suffix == ".npz":
        return read_npz(path)
    return read_ogb(path) if is_ogb(path) else read_edge_list(path)


def _whole(path: Path) -> Path:
    """Return what holds all of the graph: the folder of a table of edges, else the path itself."""
    if path.is_file() and any(path.name == f"edges{ending}" for ending in ENDINGS):
        return path.parent
    if path.is_file() and path.suffix == ".npz":
        return path
    if path.is_dir() and (is_processed(path) or is_ogb(path) or is_edge_list(path)):
        return path
    if not path.exists():
        raise UsageError(f"there is no graph {path}. Name blocks, power-law, or a path that exists.")
    raise UsageError(
        f"{path} is no graph: it must be an .npz file, a folder with edges.csv or edges.parquet, a folder of OGB's, or "
        "one that `cutegen gnn convert` wrote."
    )
