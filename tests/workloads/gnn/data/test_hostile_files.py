"""Files that are wrong, cut off or hostile: each is refused by an error that names the file and the place."""

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.convert import convert
from cutegen_core.workloads.gnn.data.open import open_path
from tests.workloads.gnn.data import files

NODES = files.NODES
ARRAYS = files.npz_arrays()


def changed(name, place, value, dtype=None):
    array = ARRAYS[name].astype(dtype or ARRAYS[name].dtype)
    array[place] = value
    return {name: array}


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


NPZ = {
    "seed beyond": (changed("train", 0, NODES), "array train: the split train names node 60; there are nodes 0 to 59"),
    "negative seed": (changed("valid", 0, -1), "the split valid names node -1"),
    "twice": (changed("train", 0, 3), "array train: the split train names node 3 twice"),
    "overlap": (changed("test", 0, 3), "array test: node 3 is in the splits train and test; splits must not overlap"),
    "unlabelled": (changed("test", 0, 20), "the split test names node 20, which has no class"),
    "empty split": ({"valid": np.empty(0, np.int64)}, "the split valid is empty"),
    "no split": ({"test": None}, "g.npz has no array test; it holds features.npy, indices.npy"),
    "float ids": ({"train": np.array([1.0, 2.0])}, "array train has 1 dimensions of float64; it must"),
    "boolean mask": ({"train": np.zeros(NODES, bool)}, "array train has 1 dimensions of bool; it must have"),
    "text": ({"labels": np.array(["a"] * NODES)}, "array labels has 1 dimensions of <U1"),
    "neighbour beyond": (changed("indices", 7, NODES), "array indices: edge 7 names node 60; there are nodes 0 to 59"),
    "negative neighbour": (changed("indices", 9, -3), "edge 9 names node -3"),
    "huge neighbour": (changed("indices", 9, 2**63, np.uint64), "array indices holds 9223372036854775808"),
    "falling indptr": (changed("indptr", 3, 0), r"indptr falls from \d+ to 0 at node 2"),
    "indptr from 1": (changed("indptr", 0, 1), "indptr runs from 1 to"),
    "indptr too long": (changed("indptr", -1, 10**12), "to 1000000000000; it must run from 0 to"),
    "float indptr": ({"indptr": ARRAYS["indptr"].astype(float)}, "array indptr has 1 dimensions of float64"),
    "no node": ({"indptr": np.zeros(1, np.int64)}, "the graph is empty, it has no node"),
    "no indptr entry": ({"indptr": np.zeros(0, np.int64)}, "the graph is empty, it has no node"),
    "no edge": ({"indptr": ARRAYS["indptr"] * 0, "indices": np.zeros(0, int)}, "the graph is empty, it has no edge"),
    "too few labels": ({"labels": np.zeros(5, np.int64)}, "array labels holds 5 rows for 60 nodes"),
    "class -2": (changed("labels", 4, -2), "node 4 has class -2; classes are 0 to"),
    "class 0.5": (changed("labels", 4, 0.5, float), "node 4 has class 0.5"),
    "class inf": (changed("labels", 4, np.inf, float), "node 4 has class inf"),
    "huge class": (changed("labels", 4, 2**40), "node 4 has class 1099511627776"),
    "no class": ({"labels": np.full(NODES, -1)}, "array labels: no node has a class"),
    "no features": ({"features": np.zeros((NODES, 0))}, "array features has 0 features a node; it must have 1 to"),
    "too long split": ({"test": np.zeros(99, int)}, "array test holds 99 entries or more, for 60 nodes"),
    "too few features": ({"features": np.zeros((5, 2))}, "array features holds 5 rows for 60 nodes"),
    "flat features": ({"features": np.zeros(NODES)}, "array features has 1 dimensions of float64; it must have 2"),
    "NaN": (changed("features", (7, 2), np.nan), "feature 2 of node 7 is nan in float32; it must be finite"),
    "too large": (changed("features", (7, 2), 1e300, float), "feature 2 of node 7 is inf in float32; it must"),
    "complex": ({"features": np.zeros((NODES, 2), complex)}, "array features has 2 dimensions of complex128"),
    "by column": ({"features": np.asfortranarray(ARRAYS["features"])}, "array features is stored column by column"),
    "pickle": ({"labels": np.array([Evil()] * NODES, object)}, "array labels holds Python objects"),
    "record": ({"labels": np.zeros(NODES, [("a", "i4")])}, "array labels has 1 dimensions of"),
}  # fmt: skip


@pytest.mark.parametrize("name", NPZ)
def test_wrong_npz(tmp_path, name):
    wrong, says = NPZ[name]
    files.write_npz(tmp_path / "g.npz", **wrong)
    with pytest.raises(UsageError, match=says) as raised:
        open_path(tmp_path / "g.npz")
    assert str(tmp_path / "g.npz") in str(raised.value)


def raw_npz(path, **members):
    """Write an .npz file whose members are bytes."""
    good = {}
    for name, array in ARRAYS.items():
        np.lib.format.write_array(stream := io.BytesIO(), array)
        good[name] = stream.getvalue()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (good | members).items():
            archive.writestr(f"{name}.npy", data)


def npy(text, data=b"", version=1):
    header = text.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


BOMB = "{'descr': '<f4', 'fortran_order': False, 'shape': (60, 1000000000000)}\n"
RAW = {
    "promises more than it holds": ({"features": npy(BOMB, bytes(100))}, "its header promises .60, 1000000000000."),
    "promises less": (
        {"features": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (60, 1)}\n", bytes(99999))},
        "its header promises .60, 1. of float32, the file holds 99999 bytes",
    ),
    "negative shape": (
        {"labels": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-60,)}\n", bytes(480))}, "array labels"
    ),
    "shape overflows": (
        {"features": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**40}, {2**40})}}\n")}, "promises"
    ),
    "code in the header": (
        {"labels": npy("{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (1,)}\n")}, "array labels"
    ),
    "deep header": ({"labels": npy("(" * 5000)}, "array labels"),
    "long header": ({"labels": npy(" " * 60_000)}, "array labels"),
    "no header": ({"labels": b""}, "array labels, cannot be read"),
    "unknown version": ({"labels": npy("{}", version=9)}, "array labels"),
    "bare pickle": ({"labels": pickle.dumps([1, 2, 3])}, "array labels"),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_hostile_npz(tmp_path, name):
    members, says = RAW[name]
    raw_npz(tmp_path / "g.npz", **members)
    with pytest.raises(UsageError, match=says) as raised:
        open_path(tmp_path / "g.npz")
    assert str(tmp_path / "g.npz") in str(raised.value)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.3, 0.9, 0.999])
def test_npz_that_is_cut_off(tmp_path, keep):
    files.write_npz(path := tmp_path / "g.npz", save=np.savez_compressed)
    data = path.read_bytes()
    path.write_bytes(data[: keep if keep >= 1 or keep == 0 else int(keep * len(data))])
    with pytest.raises(UsageError, match=r"g\.npz cannot be read"):
        open_path(path)


def test_no_flipped_bit_of_an_npz_goes_unseen_or_unnamed(tmp_path):
    """A changed byte is an error that names the file, or changes nothing that is read."""
    files.write_npz(path := tmp_path / "g.npz", save=np.savez_compressed)
    expected, data = open_path(path), bytearray(path.read_bytes())
    unnamed = unseen = 0
    for number in range(60):
        place = number * len(data) // 60
        damaged = data.copy()
        damaged[place] ^= 1 << number % 8
        (tmp_path / f"{number}.npz").write_bytes(damaged)
        try:
            found = open_path(tmp_path / f"{number}.npz")
        except UsageError as error:
            unnamed += f"{number}.npz" not in str(error)
        else:
            unseen += any(
                (getattr(found, name) != getattr(expected, name)).any() for name in ("indptr", "indices", "features")
            )
    assert (unnamed, unseen) == (0, 0)


def replaced(path, old, new):
    """Change the text of a file, which may be compressed."""
    import gzip

    packed = path.suffix == ".gz"
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    assert old in text
    files.write_text(path, text.replace(old, new, 1))


def edit(name, old, new):
    return lambda folder: replaced(folder / name, old, new)


def write(name, text):
    return lambda folder: files.write_text(folder / name, text)


def remove(name):
    return lambda folder: (folder / name).unlink()


def cut(name, share):
    return lambda folder: (folder / name).write_bytes(
        (data := (folder / name).read_bytes())[: int(len(data) * share)]
    )  # fmt: skip


EDGE_LIST = {
    "no nodes": (remove("nodes.csv"), "holds no nodes.csv, nodes.csv.gz or nodes.parquet"),
    "two edges": (write("edges.csv.gz", "source,target\n"), "edges.csv and edges.csv.gz: keep one"),
    "empty file": (write("edges.csv", ""), "edges.csv cannot be read"),
    "no edge": (write("edges.csv", "source,target\n"), "edges.csv: the graph is empty, it has no edge"),
    "no header": (write("edges.csv", "0,1\n1,2\n"), "edges.csv has no column source; its columns are 0, 1"),
    "out of range": (write("edges.csv", "source,target\n0,1\n3,60\n"), "edges.csv: edge 1 names node 60; there are"),
    "source out of range": (write("edges.csv", "source,target\n0,1\n-4,2\n"), "edges.csv: edge 1 names node -4"),
    "a word": (write("edges.csv", "source,target\n0,one\n"), "edges.csv cannot be read, from row 0 on: .*'one'"),
    "a fraction": (write("edges.csv", "source,target\n0,1.5\n"), "edges.csv cannot be read"),
    "too large": (write("edges.csv", f"source,target\n0,{2**64}\n"), "edges.csv cannot be read"),
    "missing": (write("edges.csv", "source,target\n0,1\n5,\n"), "edges.csv: column target has no value in row 1"),
    "short line": (write("edges.csv", "source,target\n0,1\n5\n"), "edges.csv cannot be read"),
    "column twice": (write("edges.csv", "source,source,target\n0,1,2\n"), "a column name occurs twice"),
    "binary": (write("edges.csv", bytes(range(256)) * 9), "edges.csv"),
    "one endless line": (write("edges.csv", "source,target\n0," + "1" * 3_000_000), "edges.csv cannot be read"),
    "no label": (edit("nodes.csv", "label", "lable"), "nodes.csv has no column label"),
    "bad class": (edit("nodes.csv", "\n0,valid", "\n-7,valid"), "nodes.csv: node 0 has class -7"),
    "bad split": (edit("nodes.csv", ",train", ",tarin"), "row 3 has the split 'tarin'; it must be train, valid, test"),
    "no features": (write("nodes.csv", "label,split\n0,train\n"), "has no column of features"),
    "word as feature": (edit("nodes.csv", ",1.0,", ",x,"), "nodes.csv cannot be read"),
    "missing feature": (edit("nodes.csv", ",1.0,", ",,"), "nodes.csv: column x0 has no value in row 1"),
    "infinite feature": (edit("nodes.csv", ",1.0,", ",1e999,"), "feature 0 of node 1 is inf"),
    "empty nodes": (write("nodes.csv", "label,split,x\n"), "nodes.csv: the graph is empty, it has no node"),
    "features twice": (lambda f: np.save(f / "features.npy", np.zeros((NODES, 2))), "keep one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGE_LIST)
def test_wrong_edge_lists(tmp_path, name):
    spoil, says = EDGE_LIST[name]
    files.write_edge_list(tmp_path / "g", ".csv")
    spoil(tmp_path / "g")
    with pytest.raises(UsageError, match=says):
        open_path(tmp_path / "g")


def test_ids_of_nodes_must_count_up(tmp_path):
    files.write_edge_list(tmp_path / "g", ".csv", with_id=True)
    replaced(tmp_path / "g" / "nodes.csv", "\n7,", "\n8,")
    with pytest.raises(UsageError, match="row 7 has id 8; rows must be nodes 0, 1, 2"):
        open_path(tmp_path / "g")


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([0.5, 1.0]), "column source is of type double; it must be int64"),
        (pa.array(["0", "1"]), "column source is of type string"),
        (pa.array([[0], [1]]), "column source is of type list"),
        (pa.array([0, None]), "column source has no value in row 1"),
        (pa.array([0, 2**63], pa.uint64()), "edges.parquet cannot be read"),
    ],
)
def test_wrong_parquet(tmp_path, column, says):
    files.write_edge_list(tmp_path / "g", ".parquet")
    parquet.write_table(pa.table({"source": column, "target": [1, 2]}), tmp_path / "g" / "edges.parquet")
    with pytest.raises(UsageError, match=says):
        open_path(tmp_path / "g")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", ["edges.parquet", "nodes.parquet", "features.npy"])
def test_files_of_an_edge_list_that_are_cut_off(tmp_path, name, share):
    files.write_edge_list(tmp_path / "g", ".parquet", features="float32")
    cut(name, share)(tmp_path / "g")
    with pytest.raises(UsageError, match=name):
        open_path(tmp_path / "g")


OGB = {
    "no edges": (remove("raw/edge.csv.gz"), "holds no edge.csv, edge.csv.gz"),
    "cut off": (cut("raw/edge.csv.gz", 0.6), "edge.csv.gz cannot be read"),
    "not gzip": (lambda f: (f / "raw/edge.csv.gz").write_bytes(b"1,2\n"), "edge.csv.gz cannot be read"),
    "three columns": (write("raw/edge.csv.gz", "1,2,3\n"), "has 3 columns; it must have two"),
    "beyond": (write("raw/edge.csv.gz", "1,2\n60,4\n"), "edge.csv.gz: edge 1 names node 60"),
    "more features": (edit("raw/node-feat.csv.gz", "\n", "\n1,2,3\n"), "node-feat.csv.gz holds more than 60 rows"),
    "fewer features": (write("raw/node-feat.csv.gz", "1,2,3\n"), "node-feat.csv.gz holds 1 rows for 60 nodes"),
    "fewer labels": (write("raw/node-label.csv.gz", "1\n"), "node-label.csv.gz holds 1 rows for 60 nodes"),
    "too many nodes": (write("raw/num-node-list.csv.gz", f"{2**40}\n"), "has 1099511627776 nodes; the sampler takes"),
    "endless labels": (write("raw/node-label.csv.gz", "1\n" * 100), "node-label.csv.gz holds 100 entries or more, for"),
    "endless split": (write("split/time/test.csv.gz", "1\n" * 100), "test.csv.gz holds 100 entries or more, for 60"),
    "no count at all": (write("raw/num-node-list.csv.gz", "\n"), "num-node-list.csv.gz"),
    "several tasks": (write("raw/node-label.csv.gz", "1,0\n"), "has 2 columns; it must hold one class"),
    "no node": (write("raw/num-node-list.csv.gz", "0\n"), "the graph is empty, it has no node"),
    "many graphs": (write("raw/num-node-list.csv.gz", "30\n30\n"), "holds 2 entries or more, for 1 nodes"),
    "no count": (write("raw/num-node-list.csv.gz", "many\n"), "num-node-list.csv.gz cannot be read"),
    "split missing": (remove("split/time/valid.csv.gz"), "holds no valid.csv, valid.csv.gz or valid.parquet"),
    "split beyond": (write("split/time/valid.csv.gz", "99\n"), "valid.csv.gz: the split valid names node 99"),
    "overlap": (write("split/time/valid.csv.gz", "5\n"), "valid.csv.gz: node 5 is in the splits train and valid"),
    "two splits": (lambda f: (f / "split/other").mkdir(), "it holds other, time"),
    "no split folder": (lambda f: (f / "split").rename(f / "split2"), "it holds none"),
    "several kinds": (write("raw/triplet-type-list.csv.gz", "a,b,c\n"), "several kinds of nodes or edges"),
}  # fmt: skip


@pytest.mark.parametrize("name", OGB)
def test_wrong_ogb_folders(tmp_path, name):
    spoil, says = OGB[name]
    files.write_ogb(tmp_path / "g")
    spoil(tmp_path / "g")
    with pytest.raises(UsageError, match=says):
        open_path(tmp_path / "g")


def test_more_nodes_than_fit_into_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    files.write_ogb(tmp_path / "g")
    write("raw/num-node-list.csv.gz", f"{2**32 - 1}\n")(tmp_path / "g")
    monkeypatch.setattr(os, "sysconf", lambda name: 2**15)
    with pytest.raises(UsageError, match=r"4294967295 nodes take 163839 MiB of memory .* has 1024"):
        open_path(tmp_path / "g")


def test_pickled_splits_are_not_read(tmp_path):
    files.write_ogb(tmp_path / "g")
    for name in files.SPLITS:
        remove(f"split/time/{name}.csv.gz")(tmp_path / "g")
    (tmp_path / "g" / "split" / "time" / "split_dict.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UsageError, match=r"split_dict\.pt, a pickle, which is not read"):
        open_path(tmp_path / "g")


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((3, 5), np.int64), r"edge_index has the shape .3, 5.; it must be"),
        (np.zeros((2, 5)), "edge_index has 2 dimensions of float64"),
        (np.full((2, 5), 60), "edge 0 names node 60"),
        (np.zeros((2, 0), np.int64), "it has no edge"),
    ],
)
def test_wrong_binary_ogb(tmp_path, array, says):
    files.write_ogb(tmp_path / "g", binary=True)
    np.savez(tmp_path / "g/raw/data.npz", edge_index=array, node_feat=files.example()[2])
    with pytest.raises(UsageError, match=says):
        open_path(tmp_path / "g")


PROCESSED = {
    "no features": (remove("features.npy"), "features.npy cannot be read"),
    "cut off": (cut("indices.npy", 0.5), "indices.npy cannot be read"),
    "pickle": (lambda f: np.save(f / "indices.npy", np.array([Evil()])), "indices.npy cannot be read"),
    "deep header": (lambda f: (f / "train.npy").write_bytes(npy("(" * 5000)), "train.npy cannot be read"),
    "zip": (lambda f: np.savez((f / "labels.npy").open("wb"), a=1), "labels.npy is not a .npy file"),
    "other graph": (lambda f: np.save(f / "indptr.npy", np.array([0, 3])), "indptr runs from 0 to 3"),
    "float indices": (lambda f: np.save(f / "indices.npy", np.zeros(len(ARRAYS["indices"]))), "indices has 1 dimen"),
    "overlap": (lambda f: np.save(f / "test.npy", np.array([3])), "test.npy: node 3 is in the splits"),
    "class": (lambda f: np.save(f / "labels.npy", np.full(NODES, 9)), "labels.npy holds class 9"),
    "no JSON": (write("graph.json", "{"), "graph.json cannot be read"),
    "other format": (edit("graph.json", '"format":1', '"format":9'), "graph.json is of format 9"),
    "wrong type": (edit("graph.json", '"classes":3', '"classes":"three"'), "graph.json cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSED)
def test_wrong_processed_folders(tmp_path, name):
    spoil, says = PROCESSED[name]
    files.write_npz(tmp_path / "g.npz")
    convert(tmp_path / "g.npz", tmp_path / "g")
    spoil(tmp_path / "g")
    with pytest.raises(UsageError, match=says):
        open_path(tmp_path / "g")


def test_what_is_no_graph(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UsageError, match=r"there is no graph .*nothing"):
        open_path(tmp_path / "nothing")
    for path in (tmp_path / "empty", tmp_path / "a.txt"):
        with pytest.raises(UsageError, match="is no graph: it must be"):
            open_path(path)
