"""Every format gives the same graph, with nothing lost, and a processed one is mapped and read again."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphSettings
from cutegen_core.workloads.gnn.data.convert import convert
from cutegen_core.workloads.gnn.data.open import open_graph, open_path
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from tests.workloads.gnn.data import files
from tests.workloads.gnn.graphs import check_batch


def expect(graph, *, undirected=False):
    source, target, table, labels = files.example()
    rows = [set() for _ in range(files.NODES)]
    for one, other in zip(source.tolist(), target.tolist(), strict=True):
        rows[other].add(one)
        if undirected:
            rows[one].add(other)
    assert files.rows_as_sets(graph) == rows
    assert graph.edges == sum(map(len, rows))
    assert graph.indices.dtype == np.int32
    assert (np.asarray(graph.features) == table.astype(graph.features.dtype)).all()
    assert graph.labels.tolist() == labels.tolist()
    assert graph.classes == 3
    for name, members in files.SPLITS.items():
        assert getattr(graph.splits, name).tolist() == sorted(members)
    check_batch(graph, Sampler(graph, (3, 2)).sample(np.arange(9), 0), range(9), (3, 2), layered=False)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("features", ["columns", "float16", "float64", "int32"])
def test_edge_lists(tmp_path, ending, features):
    files.write_edge_list(tmp_path / "mine", ending, features=features, with_id=features == "columns")
    graph = open_graph(GraphSettings(str(tmp_path / "mine")))
    assert graph.name == "mine"
    assert graph.features.dtype == (np.float16 if features == "float16" else np.float32)
    if features != "int32":
        expect(graph)
    expect_same = open_path(tmp_path / "mine" / f"edges{ending}")
    assert (expect_same.indices == graph.indices).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint32, np.uint64, ">i8"])
def test_npz(tmp_path, save, kind):
    arrays = files.npz_arrays()
    files.write_npz(
        tmp_path / "g.npz", save=save, indptr=arrays["indptr"].astype(kind), indices=arrays["indices"].astype(kind)
    )
    expect(open_path(tmp_path / "g.npz"))


@pytest.mark.parametrize("features", [np.float16, np.float64, ">f4"])
def test_npz_with_other_features(tmp_path, features):
    files.write_npz(tmp_path / "g.npz", features=files.example()[2].astype(features))
    graph = open_path(tmp_path / "g.npz")
    assert graph.features.dtype == (np.float16 if features == np.float16 else np.float32)
    expect(graph)


@pytest.mark.parametrize("binary", [False, True], ids=["tables", "binary"])
@pytest.mark.parametrize("splits", [".csv.gz", ".csv", ".parquet"])
def test_ogb(tmp_path, binary, splits):
    files.write_ogb(tmp_path / "ogbn_test", binary=binary, splits=splits)
    expect(open_path(tmp_path / "ogbn_test"), undirected=True)


def test_ogb_binary_with_edges_stored_by_column(tmp_path):
    files.write_ogb(tmp_path / "g", binary=True)
    with np.load(tmp_path / "g" / "raw" / "data.npz") as data:
        arrays = dict(data)
    arrays["edge_index"] = np.asfortranarray(arrays["edge_index"])
    np.savez(tmp_path / "g" / "raw" / "data.npz", **arrays)
    expect(open_path(tmp_path / "g"), undirected=True)


def test_many_chunks_are_one_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("cutegen_core.workloads.gnn.data.archive._CHUNK_BYTES", 64)
    monkeypatch.setattr("cutegen_core.workloads.gnn.data.tables._PARQUET_ROWS", 7)
    monkeypatch.setattr("cutegen_core.workloads.gnn.data.edge_list._ROWS", 7)
    files.write_npz(tmp_path / "g.npz", save=np.savez_compressed)
    expect(open_path(tmp_path / "g.npz"))
    files.write_ogb(tmp_path / "o", binary=True, splits=".parquet")
    expect(open_path(tmp_path / "o"), undirected=True)
    files.write_edge_list(tmp_path / "e", ".parquet", features="float16")
    expect(open_path(tmp_path / "e"))


@pytest.mark.parametrize("ending", ["", ".npz"])
@pytest.mark.parametrize("source", ["npz", "edges", "ogb"])
def test_what_was_converted_is_the_same_graph(tmp_path, ending, source):
    if source == "npz":
        files.write_npz(path := tmp_path / "g.npz")
    elif source == "edges":
        files.write_edge_list(path := tmp_path / "g", ".csv")
    else:
        files.write_ogb(path := tmp_path / "g", binary=True)
    converted = convert(path, out := tmp_path / f"out{ending}")
    assert (converted.path, converted.facts.nodes) == (out, files.NODES)
    expect(open_path(out), undirected=source == "ogb")
    if not ending:
        again = convert(out, tmp_path / "again.npz")
        assert again.facts.edges == converted.facts.edges
        expect(open_path(tmp_path / "again.npz"), undirected=source == "ogb")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_repeated_edges_are_counted_and_both_directions_on_request(tmp_path):
    files.write_edge_list(tmp_path / "g", ".csv")
    edges = (tmp_path / "g" / "edges.csv").read_text().splitlines()
    (tmp_path / "g" / "edges.csv").write_text("\n".join([*edges, *edges[1:8]]) + "\n")
    converted = convert(tmp_path / "g", tmp_path / "out")
    assert converted.repeated_edges == 7
    expect(open_path(tmp_path / "out"))
    convert(tmp_path / "g", tmp_path / "both", undirected=True)
    expect(open_path(tmp_path / "both"), undirected=True)


@pytest.mark.parametrize(
    ("out", "says"),
    [("there", "exists"), ("no/folder/x", "is no folder"), ("x", "already"), ("y.npz", "both directions")],
)
def test_conversions_that_are_refused(tmp_path, out, says):
    (tmp_path / "there").mkdir()
    files.write_npz(tmp_path / "g.npz")
    convert(tmp_path / "g.npz", tmp_path / "done")
    path = tmp_path / ("done" if out == "x" else "g.npz")
    with pytest.raises(UsageError, match=says):
        convert(path, tmp_path / out, undirected=out == "y.npz")
    assert not (tmp_path / out).exists() or out == "there"


def test_features_are_halved_on_request(tmp_path):
    files.write_npz(tmp_path / "g.npz")
    convert(tmp_path / "g.npz", tmp_path / "half", half=True)
    assert open_path(tmp_path / "half").features.dtype == np.float16
    expect(open_path(tmp_path / "half"))
    files.write_npz(tmp_path / "g.npz", features=np.full((files.NODES, 2), 70_000.0))
    with pytest.raises(UsageError, match="feature 0 of node 0 is inf in float16"):
        convert(tmp_path / "g.npz", tmp_path / "again", half=True)


def test_the_processed_form_is_mapped_and_used_until_the_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / "home"))
    files.write_npz(path := tmp_path / "g.npz")
    first = open_path(path)
    assert all(isinstance(each, np.memmap) for each in (first.indptr, first.indices, first.features))
    assert open_path(path).indices.filename == first.indices.filename
    labels = files.npz_arrays()["labels"]
    labels[0] = 2
    files.write_npz(path, labels=labels)
    os.utime(path, ns=(1, 10**18))
    second = open_path(path)
    assert second.labels[0] == 2
    assert (first.indices == second.indices).all()  # what was mapped stays readable
    kept = [each.name for each in (tmp_path / "home" / "cache" / "gnn-graphs").iterdir() if each.is_dir()]
    assert len(kept) == 1


@pytest.mark.parametrize("small", [False, True])
def test_a_graph_that_does_not_fit_into_memory_is_not_read_ahead(tmp_path, monkeypatch, small):
    files.write_npz(tmp_path / "g.npz")
    convert(tmp_path / "g.npz", tmp_path / "g")
    if small:
        monkeypatch.setattr(os, "sysconf", lambda name: 4)
    graph = open_path(tmp_path / "g")
    mapped, advised = Path(), set()
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            mapped = Path(line.split()[-1])
        elif line.startswith("VmFlags:") and " rr" in line and mapped.parent == tmp_path / "g":
            advised.add(mapped.stem)
    assert sorted(advised) == (["features", "indices"] if small else [])
    assert graph.nodes == files.NODES


def test_a_failed_conversion_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / "home"))
    files.write_npz(tmp_path / "g.npz", features=np.full((files.NODES, 2), np.nan))
    with pytest.raises(UsageError, match="must be finite"):
        open_path(tmp_path / "g.npz")
    assert [each for each in (tmp_path / "home" / "cache" / "gnn-graphs").iterdir() if each.is_dir()] == []
