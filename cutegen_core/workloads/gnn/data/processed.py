"""Write a graph as a folder of .npy files that are mapped, and open such a folder.

Writing streams: only indptr, counters and labels are held in memory, features and ids of neighbours pass through.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutegen_core.records import as_json
from cutegen_core.records.errors import StoreError, UsageError
from cutegen_core.workloads.gnn.data import checks
from cutegen_core.workloads.gnn.data.npy_files import (
    create_array,
    disk_errors,
    expect_jumps,
    map_array,
    shorten,
)
from cutegen_core.workloads.gnn.data.raw import RawGraph, RawRows
from cutegen_core.workloads.gnn.data.rows import build_rows, id_dtype
from cutegen_core.workloads.gnn.graph import SPLITS, Array, GraphData, Ids, Splits
from cutegen_core.workloads.gnn.native.abi import address, native

FORMAT = 1
ABOUT = "graph.json"
ARRAYS = ("indptr", "indices", "features", "labels", *SPLITS)


@dataclass(frozen=True)
class About:
    """What a processed graph says of itself beside its arrays.

    Attributes:
        repeated_edges: how many edges were left out since they occurred before.
    """

    format: int
    name: str
    classes: int
    repeated_edges: int


def is_processed(folder: Path) -> bool:
    """Tell whether a folder was written by `write_processed`."""
    return (folder / ABOUT).is_file()


def write_processed(raw: RawGraph, folder: Path) -> None:
    """Write the graph into an empty folder, checked.

    Raises:
        UsageError: something in the graph's files is wrong.
        MachineError: the disk is full.
    """
    checks.check_nodes(raw.places["edges"], raw.nodes)
    checks.check_width(raw.places["features"], raw.features.width)
    labels = checks.to_labels(raw.places["labels"], raw.labels, raw.nodes)
    splits = checks.to_splits(raw.splits, labels, raw.places)
    if isinstance(raw.edges, RawRows):
        indptr, repeated = _copy_rows(raw, raw.edges, folder), 0
    else:
        indptr, repeated = _build(raw, folder)
    _copy_features(raw, folder)
    parts = (("indptr", indptr), ("labels", labels), *((name, getattr(splits, name)) for name in SPLITS))
    for name, array in parts:
        with disk_errors(folder / f"{name}.npy"):
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    about = About(FORMAT, raw.name, int(labels.max()) + 1, repeated)
    with disk_errors(folder / ABOUT):
        (folder / ABOUT).write_text(as_json.dump(about) + "\n")


def read_processed(folder: Path) -> GraphData:
    """Return the graph with mapped arrays.

    Raises:
        UsageError: a file is missing, damaged, or does not fit the others.
    """
    about = _read_about(folder / ABOUT)
    arrays = {name: map_array(folder / f"{name}.npy") for name in ARRAYS}
    for name in ("indices", "features"):
        expect_jumps(arrays[name])
    places = {name: str(folder / f"{name}.npy") for name in ARRAYS}
    checks.check_indptr(places["indptr"], checks.to_ids(places["indptr"], arrays["indptr"]), len(arrays["indices"]))
    labels = checks.to_labels(places["labels"], arrays["labels"], len(arrays["indptr"]) - 1)
    if (largest := int(labels.max())) >= about.classes:
        raise UsageError(f"{places['labels']} holds class {largest}, {ABOUT} says {about.classes} classes.")
    splits: Splits = checks.to_splits(
        {name: checks.to_ids(places[name], arrays[name]) for name in SPLITS}, labels, places
    )
    return GraphData(about.name, arrays["indptr"], arrays["indices"], arrays["features"], labels, about.classes, splits)


def repeated_edges(folder: Path) -> int:
    """Return how many edges were left out of a processed graph since they occurred before."""
    return _read_about(folder / ABOUT).repeated_edges


def _read_about(path: Path) -> About:
    try:
        about = as_json.load(About, path.read_text())
    except (OSError, UnicodeDecodeError, StoreError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Convert the graph again.") from error
    if about.format != FORMAT:
        raise UsageError(f"{path} is of format {about.format}, not {FORMAT}. Convert the graph again.")
    return about


def _build(raw: RawGraph, folder: Path) -> tuple[Ids, int]:
    path = folder / "indices.npy"
    place = raw.places["edges"]

    def allocate(count: int, dtype: type) -> Array:
        if count == 0:
            raise UsageError(f"{place}: the graph is empty, it has no edge.")
        return create_array(path, (count,), dtype)

    assert not isinstance(raw.edges, RawRows)
    rows = build_rows(place, raw.nodes, raw.edges, undirected=raw.undirected, allocate=allocate)
    if rows.repeated:
        shorten(path, len(rows.indices))
    return rows.indptr, rows.repeated


def _copy_rows(raw: RawGraph, rows: RawRows, folder: Path) -> Ids:
    place = raw.places["edges"]
    checks.check_indptr(place, rows.indptr, rows.edges)
    if rows.edges == 0:
        raise UsageError(f"{place}: the graph is empty, it has no edge.")
    out = create_array(folder / "indices.npy", (rows.edges,), id_dtype(raw.nodes))
    at = 0
    for chunk in rows.indices():
        ids = checks.to_ids(place, chunk)
        bad = native().first_bad_64(address(ids), len(ids), raw.nodes)
        if bad >= 0:
            raise UsageError(f"{place}: edge {at + bad} names node {ids[bad]}; there are nodes 0 to {raw.nodes - 1}.")
        out[at : at + len(ids)] = ids
        at += len(ids)
    checks.check_length(place, at, rows.edges)
    return rows.indptr


def _copy_features(raw: RawGraph, folder: Path) -> None:
    place = raw.places["features"]
    out = create_array(folder / "features.npy", (raw.nodes, raw.features.width), raw.features.dtype)
    at = 0
    for chunk in raw.features.rows():
        if at + len(chunk) > raw.nodes:
            raise UsageError(f"{place} holds more than {raw.nodes} rows, one for each node.")
        with np.errstate(over="ignore"):
            rows = chunk.astype(raw.features.dtype, copy=False)
        checks.check_features(place, rows, at)
        out[at : at + len(rows)] = rows
        at += len(rows)
    checks.check_length(place, at, raw.nodes)
