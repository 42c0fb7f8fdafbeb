"""Read the folders of OGB's node-property datasets as its downloads leave them on disk; nothing is downloaded.

    raw/edge.csv.gz, node-feat.csv.gz, node-label.csv.gz, num-node-list.csv.gz     (ogbn-arxiv, ogbn-products)
    raw/data.npz with edge_index and node_feat, raw/node-label.npz                 (ogbn-papers100M)
    split/NAME/train, valid, test, each .csv.gz, .csv or .parquet without a header in CSV

Every edge counts in both directions, as SALIENT and OGB's own examples have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data import checks
from cutegen_core.workloads.gnn.data.archive import Archive, Member
from cutegen_core.workloads.gnn.data.edge_list import edge_pairs
from cutegen_core.workloads.gnn.data.npz import to_features
from cutegen_core.workloads.gnn.data.raw import RawFeatures, RawGraph
from cutegen_core.workloads.gnn.data.rows import Chunk, Edges
from cutegen_core.workloads.gnn.data.tables import (
    ID,
    LABEL,
    NUMBER,
    column_names,
    find_table,
    ids_of,
    need_table,
    read_table,
    rows_of,
)
from cutegen_core.workloads.gnn.graph import SPLITS, Array, Ids

_OTHER_KINDS = ("triplet-type-list.csv.gz", "num-node-dict.csv.gz", "node-feat", "relations")


def is_ogb(folder: Path) -> bool:
    """Tell whether a folder looks like one of OGB's."""
    return (folder / "raw").is_dir()


def ogb_files(folder: Path) -> list[Path]:
    """Return the files that the graph is read from."""
    raw, split = folder / "raw", _split_folder(folder)
    splits = [need_table(split, name) for name in SPLITS]
    if _is_binary(raw):
        return [raw / "data.npz", raw / "node-label.npz", *splits]
    return [*(need_table(raw, name) for name in ("edge", "node-feat", "node-label", "num-node-list")), *splits]


def read_ogb(folder: Path) -> RawGraph:
    """Return the graph of a folder of OGB's.

    Raises:
        UsageError: the graph has several kinds of nodes or edges, or a file is missing or wrong.
    """
    raw, split = folder / "raw", _split_folder(folder)
    for name in _OTHER_KINDS:
        if (raw / name).exists():
            raise UsageError(f"{raw / name}: the graph has several kinds of nodes or edges, which is not supported.")
    tables = {name: need_table(split, name) for name in SPLITS}
    given = (_read_binary if _is_binary(raw) else _read_tables)(folder)
    splits = {name: _read_ids(path, given.nodes) for name, path in tables.items()}
    return replace(given, splits=splits, places=given.places | {name: str(path) for name, path in tables.items()})


def _is_binary(raw: Path) -> bool:
    return (raw / "data.npz").is_file()


def _split_folder(folder: Path) -> Path:
    split = folder / "split"
    found = sorted(path for path in split.iterdir() if path.is_dir()) if split.is_dir() else []
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UsageError(f"{split} must hold one folder with the splits train, valid and test; it holds {names}.")
    if (found[0] / "split_dict.pt").is_file() and find_table(found[0], SPLITS[0]) is None:
        raise UsageError(f"{found[0]} holds split_dict.pt, a pickle, which is not read. Save the splits as .csv.gz.")
    return found[0]


def _read_tables(folder: Path) -> RawGraph:
    raw = folder / "raw"
    edges, features, labels, count = (
        need_table(raw, name) for name in ("edge", "node-feat", "node-label", "num-node-list")
    )
    counted = _read_ids(count, 1)
    if len(counted) != 1:
        raise UsageError(f"{count} is empty; it must hold the number of nodes.")
    nodes = checks.check_nodes(str(count), int(counted[0]))
    ends = column_names(edges, header=edges.suffix == ".parquet")
    if len(ends) != 2:
        raise UsageError(f"{edges} has {len(ends)} columns; it must have two, source and target.")
    columns = column_names(features, header=features.suffix == ".parquet")
    places = {"edges": str(edges), "features": str(features), "labels": str(labels)}
    return RawGraph(
        name=folder.name, nodes=nodes,
        edges=edge_pairs(edges, (ends[0], ends[1]), header=edges.suffix == ".parquet"), undirected=True,
        features=RawFeatures(lambda: _feature_rows(features, columns), len(columns), np.dtype(np.float32)),
        labels=_read_labels(labels, nodes), splits={}, places=places,
    )  # fmt: skip


def _read_binary(folder: Path) -> RawGraph:
    data, labels = Archive(folder / "raw" / "data.npz"), Archive(folder / "raw" / "node-label.npz")
    pairs, features = data.member("edge_index", "iu", 2), data.member("node_feat", "f", 2)
    if pairs.shape[0] != 2:
        raise UsageError(f"{pairs.place} has the shape {pairs.shape}; it must be (2, edges).")
    label = labels.member("node_label", "iuf", 2)
    nodes = checks.check_nodes(features.place, features.shape[0])
    checks.check_length(label.place, label.shape[0], nodes)
    places = {"edges": pairs.place, "features": features.place, "labels": label.place}
    return RawGraph(
        name=folder.name, nodes=nodes, edges=_member_pairs(pairs), undirected=True,
        features=to_features(features), labels=label.read(), splits={}, places=places,
    )  # fmt: skip


def _member_pairs(pairs: Member) -> Edges:
    """Return passes over an array of shape (2, edges); two readers keep one chunk of each row in memory."""
    edges = pairs.shape[1]

    def read() -> Iterator[Chunk]:
        if pairs.by_column:
            for chunk in pairs.items(multiple=2):
                yield Chunk(*(checks.to_ids(pairs.place, each) for each in chunk.reshape(-1, 2).T))
            return
        for each in zip(pairs.items(0, edges), pairs.items(edges, 2 * edges), strict=True):
            yield Chunk(*(checks.to_ids(pairs.place, ids) for ids in each))

    return read


def _read_ids(path: Path, most: int) -> Ids:
    """Return the only column of a table with at most so many rows."""
    header = path.suffix == ".parquet"
    names = column_names(path, header=header)
    if len(names) != 1:
        raise UsageError(f"{path} has {len(names)} columns; it must have one.")
    parts = []
    for row, batch in read_table(path, {names[0]: ID}, header=header):
        checks.check_at_most(str(path), row + batch.num_rows, most)
        parts.append(ids_of(path, batch, names[0], row))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _read_labels(path: Path, nodes: int) -> Array:
    names = column_names(path, header=path.suffix == ".parquet")
    if len(names) != 1:
        raise UsageError(f"{path} has {len(names)} columns; it must hold one class for each node.")
    parts = [np.empty(0)]
    for row, batch in read_table(path, {names[0]: LABEL}, header=path.suffix == ".parquet"):
        checks.check_at_most(str(path), row + batch.num_rows, nodes)
        parts.append(batch.column(0).to_numpy(zero_copy_only=False))
    return np.concatenate(parts)


def _feature_rows(path: Path, columns: list[str]) -> Iterator[Array]:
    for row, batch in read_table(path, dict.fromkeys(columns, NUMBER), header=path.suffix == ".parquet"):
        yield rows_of(path, batch, columns, row)
