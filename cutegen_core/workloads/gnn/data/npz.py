"""Read and write graphs as .npz files: indptr, indices, features, labels, train, valid, test."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from cutegen_core.workloads.gnn.data import checks
from cutegen_core.workloads.gnn.data.archive import Archive, Member
from cutegen_core.workloads.gnn.data.npy_files import disk_errors
from cutegen_core.workloads.gnn.data.raw import RawFeatures, RawGraph, RawRows
from cutegen_core.workloads.gnn.graph import SPLITS, Array, GraphData


def read_npz(path: Path) -> RawGraph:
    """Return the graph of a file that holds its rows of in-neighbours; what it keeps in the rows stays as it is."""
    archive = Archive(path)
    indptr = archive.member("indptr", "iu", 1)
    indices = archive.member("indices", "iu", 1)
    labels = archive.member("labels", "iuf", 1)
    splits = {name: archive.member(name, "iu", 1) for name in SPLITS}
    members = {"edges": indices, "features": archive.member("features", "fiu", 2), "labels": labels, **splits}
    nodes = indptr.shape[0] - 1
    checks.check_nodes(indptr.place, nodes)
    for name in ("features", "labels"):
        checks.check_length(members[name].place, members[name].shape[0], nodes)
    for name in SPLITS:
        checks.check_at_most(members[name].place, members[name].shape[0], nodes)
    return RawGraph(
        name=path.stem, nodes=nodes,
        edges=RawRows(checks.to_ids(indptr.place, indptr.read()), indices.rows, indices.shape[0]),
        undirected=False, features=to_features(members["features"]), labels=labels.read(),
        splits={name: checks.to_ids(member.place, member.read()) for name, member in splits.items()},
        places={name: member.place for name, member in members.items()},
    )  # fmt: skip


def to_features(member: Member) -> RawFeatures:
    """Return an array of an .npz file as features: float16 stays, everything else becomes float32."""
    half = member.dtype == np.float16
    return RawFeatures(member.rows, member.shape[1], np.dtype(np.float16) if half else np.dtype(np.float32))


def write_npz(graph: GraphData, path: Path) -> None:
    """Write the graph as an uncompressed .npz file, array by array."""
    arrays: dict[str, Array] = {name: getattr(graph, name) for name in ("indptr", "indices", "features", "labels")}
    arrays |= {name: getattr(graph.splits, name) for name in SPLITS}
    with disk_errors(path), zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
