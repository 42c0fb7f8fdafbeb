"""Read a graph from two tables, `edges` and `nodes`, each .csv, .csv.gz or .parquet, in one folder.

* edges: columns `source` and `target`, node numbers from 0 on; every row is an edge from source to target.
* nodes: a row for each node, in order: `label` (a class, empty where unknown), `split` (train, valid, test or empty),
  an optional `id` that must be the row's number; every other column is a feature. `features.npy` beside the tables
  holds the features instead, one row for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data import checks
from cutegen_core.workloads.gnn.data.npy_files import map_array
from cutegen_core.workloads.gnn.data.raw import RawFeatures, RawGraph
from cutegen_core.workloads.gnn.data.rows import Chunk, Edges
from cutegen_core.workloads.gnn.data.tables import (
    ID,
    LABEL,
    NUMBER,
    TEXT,
    column_names,
    find_table,
    ids_of,
    need_table,
    read_table,
    rows_of,
)
from cutegen_core.workloads.gnn.graph import SPLITS, Array, Ids

_FEATURES = "features.npy"
_OWN = ("id", "label", "split")
_ROWS = 1 << 16


def is_edge_list(folder: Path) -> bool:
    """Tell whether a folder holds a table of edges."""
    return find_table(folder, "edges") is not None


def edge_list_files(folder: Path) -> list[Path]:
    """Return the files that the graph is read from."""
    beside = [folder / _FEATURES] if (folder / _FEATURES).is_file() else []
    return [need_table(folder, "edges"), need_table(folder, "nodes"), *beside]


def read_edge_list(folder: Path) -> RawGraph:
    """Return the graph of a folder with a table of edges.

    Raises:
        UsageError: features are missing, given twice, or a table is wrong; the text names the file.
    """
    edges, nodes = need_table(folder, "edges"), need_table(folder, "nodes")
    columns = [name for name in column_names(nodes) if name not in _OWN]
    labels, splits = _read_nodes(nodes)
    beside = folder / _FEATURES
    if beside.is_file():
        if columns:
            raise UsageError(f"{nodes} has features ({columns[0]}, ...), and so has {beside}: keep one of them.")
        features = _mapped_features(beside)
    elif columns:
        features = RawFeatures(lambda: _feature_rows(nodes, columns), len(columns), np.dtype(np.float32))
    else:
        raise UsageError(f"{nodes} has no column of features, and there is no {_FEATURES} next to it.")
    places = dict.fromkeys(("labels", *SPLITS), str(nodes))
    places |= {"edges": str(edges), "features": str(beside if beside.is_file() else nodes)}
    return RawGraph(folder.name, len(labels), edge_pairs(edges), False, features, labels, splits, places)


def edge_pairs(path: Path, columns: tuple[str, str] = ("source", "target"), *, header: bool = True) -> Edges:
    """Return passes over a table of edges."""

    def read() -> Iterator[Chunk]:
        for row, batch in read_table(path, dict.fromkeys(columns, ID), header=header):
            yield Chunk(*(ids_of(path, batch, name, row) for name in columns))

    return read


def _read_nodes(path: Path) -> tuple[Array, dict[str, Ids]]:
    has_id = "id" in column_names(path)
    types: dict[str, pa.DataType] = {"label": LABEL, "split": TEXT} | ({"id": ID} if has_id else {})
    labels: list[Array] = []
    members: dict[str, list[Ids]] = {name: [] for name in SPLITS}
    for row, batch in read_table(path, types):
        checks.check_nodes(str(path), row + batch.num_rows or 1)
        if has_id:
            _check_numbers(path, ids_of(path, batch, "id", row), row)
        labels.append(batch.column("label").to_numpy(zero_copy_only=False))
        names = np.array(["" if name is None else name.strip() for name in batch.column("split").to_pylist()])
        if (wrong := np.flatnonzero(~np.isin(names, ("", *SPLITS)))).size:
            raise UsageError(
                f"{path}: row {row + wrong[0]} has the split {names[wrong[0]][:40]!r}; it must be {', '.join(SPLITS)} "
                "or empty."
            )
        for name, found in members.items():
            found.append(row + np.flatnonzero(names == name))
    if not labels:
        raise UsageError(f"{path}: the graph is empty, it has no node.")
    return np.concatenate(labels), {name: np.concatenate(found) for name, found in members.items()}


def _check_numbers(path: Path, ids: Ids, row: int) -> None:
    if (wrong := np.flatnonzero(ids != row + np.arange(len(ids)))).size:
        place = int(wrong[0])
        raise UsageError(f"{path}: row {row + place} has id {ids[place]}; rows must be nodes 0, 1, 2, ... in order.")


def _feature_rows(path: Path, columns: list[str]) -> Iterator[Array]:
    for row, batch in read_table(path, dict.fromkeys(columns, NUMBER)):
        yield rows_of(path, batch, columns, row)


def _mapped_features(path: Path) -> RawFeatures:
    array = map_array(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise UsageError(f"{path} has {array.ndim} dimensions of {array.dtype}; it must have 2 of numbers.")

    def read() -> Iterator[Array]:
        for first in range(0, len(array), _ROWS):
            yield np.asarray(array[first : first + _ROWS])

    half = array.dtype == np.float16
    return RawFeatures(read, array.shape[1], np.dtype(np.float16) if half else np.dtype(np.float32))
