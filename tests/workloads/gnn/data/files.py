"""Write graphs in every format that is read, without the code under test."""

import gzip

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tests.workloads.gnn.graphs import skewed

NODES, WIDTH = 60, 3
SPLITS = {"train": [5, 3, 8], "valid": [0, 59], "test": [10, 11]}


def rows_as_sets(graph):
    return [set(graph.indices[a:b].tolist()) for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]


def example():
    """(source, target, features, labels): no edge twice, no row empty of meaning."""
    graph = skewed(NODES, 400, seed=4, width=WIDTH)
    target = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    labels = graph.labels.copy()
    labels[20] = -1
    return graph.indices.astype(np.int64), target, graph.features, labels


def write_text(path, text):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def csv_of(columns, *, header=None):
    lines = [",".join(header)] if header else []
    lines += [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


def split_names(nodes=NODES):
    names = [""] * nodes
    for name, members in SPLITS.items():
        for member in members:
            names[member] = name
    return names


def write_edge_list(folder, ending, *, features="columns", with_id=False):
    source, target, table, labels = example()
    folder.mkdir()
    node_columns = {"label": ["" if label < 0 else int(label) for label in labels], "split": split_names()}
    if with_id:
        node_columns = {"id": list(range(NODES))} | node_columns
    if features == "columns":
        node_columns |= {f"x{i}": table[:, i].tolist() for i in range(WIDTH)}
    else:
        np.save(folder / "features.npy", table.astype(features))
    if ending == ".parquet":
        node_columns["label"] = [None if label == "" else label for label in node_columns["label"]]
        parquet.write_table(pa.table(node_columns), folder / "nodes.parquet")
        parquet.write_table(pa.table({"source": source, "target": target}), folder / "edges.parquet")
    else:
        write_text(folder / f"nodes{ending}", csv_of(node_columns.values(), header=node_columns))
        write_text(folder / f"edges{ending}", csv_of((source, target), header=("source", "target")))


def npz_arrays():
    source, target, table, labels = example()
    indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=NODES))])
    return {"indptr": indptr, "indices": source, "features": table, "labels": labels} | {
        name: np.array(members) for name, members in SPLITS.items()
    }


def write_npz(path, *, save=np.savez, **changed):
    save(path, **{name: array for name, array in (npz_arrays() | changed).items() if array is not None})


def write_ogb(folder, *, binary=False, splits=".csv.gz"):
    """Write ogbn-arxiv's layout, or ogbn-papers100M's; half of the edges, since each counts in both directions."""
    source, target, table, labels = example()
    raw, split = folder / "raw", folder / "split" / "time"
    raw.mkdir(parents=True)
    split.mkdir(parents=True)
    if binary:
        np.savez(raw / "data.npz", edge_index=np.stack([source, target]), node_feat=table,
                 num_nodes_list=np.array([NODES]), num_edges_list=np.array([len(source)]),
                 node_year=np.zeros((NODES, 1)))  # fmt: skip
        np.savez(raw / "node-label.npz", node_label=np.where(labels < 0, np.nan, labels)[:, None])
    else:
        write_text(raw / "edge.csv.gz", csv_of((source, target)))
        write_text(raw / "node-feat.csv.gz", csv_of(table.T))
        write_text(raw / "node-label.csv.gz", csv_of(([-1 if label < 0 else label for label in labels],)))
        write_text(raw / "num-node-list.csv.gz", f"{NODES}\n")
        write_text(raw / "num-edge-list.csv.gz", f"{len(source)}\n")
    for name, members in SPLITS.items():
        if splits == ".parquet":
            parquet.write_table(pa.table({"node": members}), split / f"{name}.parquet")
        else:
            write_text(split / f"{name}{splits}", csv_of((members,)))
