"""A finished GNN run travels as one file: it looks the same elsewhere, and nothing else is taken for one."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutegen_core.records import as_json
from cutegen_core.records.errors import CutegenError, UsageError
from cutegen_core.records.gnn import BatchStage, RunSettings, Span
from cutegen_core.records.job import JobState
from cutegen_core.share.exports.run_file import recorded, run_text, write_run
from cutegen_core.share.imports import reading, run_file
from cutegen_core.share.imports.run_file import import_run_file
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from tests.views.test_gnn_views import epoch, run

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    made = Store()
    yield made
    made.close()


def written(store: Store, folder: Path, name: str = "a.gnn.json") -> Path:
    spans = (Span(BatchStage.COMPUTE, "compute", 0, 0.0, 0.5),)
    settings = RunSettings(checkpoint="/home/someone/secret")
    view = run(store, [epoch(1, timeline=spans), epoch(2, timeline=spans)], settings, sampled_accuracy=0.9,
               machine={"device": "NVIDIA H200"})  # fmt: skip
    path = folder / name
    write_run(recorded(store, view.job.id), path)
    return path


@pytest.mark.parametrize("name", ["a.gnn.json", "a.gnn.json.gz"])
def test_a_run_looks_the_same_elsewhere(store: Store, tmp_path: Path, name: str) -> None:
    path = written(store, tmp_path, name)
    imported = import_run_file(store, path)
    (before,) = (job.id for job in jobs.every(store) if job.id != imported.job)
    one, other = gnn.run_view(store, before), gnn.run_view(store, imported.job)
    assert other.job.state is JobState.DONE
    assert other.job.origin == f"imported from {name}"
    assert (other.epochs, other.job.title) == (one.epochs, gnn.run_title(one.settings))
    assert gnn.figure_rows(other) == gnn.figure_rows(one)
    assert "nothing ran on this machine" in gnn.imported_words(other)
    assert other.settings.checkpoint == ""
    assert "secret" not in run_text(recorded(store, one.job.id))


def test_a_run_without_a_result_is_not_written(store: Store) -> None:
    job = jobs.create(store, "gnn", "waits", as_json.dump(RunSettings()))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="waiting and has no result"):
        recorded(store, job)


def changed(where: str, value: object) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        *path, last = where.split(".")
        at: Any = document
        for part in path:
            at = at[int(part)] if part.isdigit() else at[part]
        at[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (changed("cutegen", "recording"), "no recorded GNN run"),
        (changed("version", 2), "format version 2; this workbench reads 1"),
        (changed("settings.epochs", "many"), "epochs"),
        (changed("settings.epochs", 0), "Epochs: '0' is no whole number"),
        (changed("settings.aggregate", "kernel:<b>.1"), "Aggregation"),
        (changed("settings.graph.source", "a\nb"), "no path"),
        (changed("epochs", {}), "epochs is no list"),
        (changed("epochs.0.seconds", math.inf), "inf is no time and no count"),
        (changed("epochs.0.seconds", -1), "-1.0 is no time"),
        (changed("epochs.0.seconds", math.nan), "nan is no time"),
        (changed("epochs.0.accuracy", 7), "an accuracy is not between 0 and 1"),
        (changed("epochs.0.loss", 1e300), "a loss is out of range"),
        (changed("epochs.0.timeline", [{"stage": "compute", "lane": "x", "batch": 0, "start_s": 0, "end_s": 1}] * 6000),
         "more than 5,000 spans"),
        (changed("epochs.1.timeline.0.lane", "x" * 3000), "a text of more than 2,000 characters"),
        (changed("result.machine", {str(i): "" for i in range(200)}), "more entries than a run has"),
        (changed("result.graph.nodes", 10**40), "is no time and no count"),
        (changed("result.graph", None), "graph"), (changed("result", []), "stored RunResult cannot be read"),
        (changed("started_at", 1e300), "started_at is no time"), (changed("ended_at", "now"), "ended_at is no time"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_refused_whole(store: Store, tmp_path: Path, edit: Edit, said: str) -> None:
    path = written(store, tmp_path)
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    before = jobs.every(store)
    with pytest.raises(CutegenError) as refused:
        import_run_file(store, path)
    assert said in str(refused.value)
    assert path.name in str(refused.value)
    assert jobs.every(store) == before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not JSON"), (b"\xff\xfe", "is not JSON"), (b"[" * 9000, "is not JSON"), (b"[]", "no recorded GNN"),
        (b"1" * 4500, "is not JSON"), (gzip.compress(b"{")[:-9], "cannot be unpacked"),
    ],
    ids=["empty", "no text", "deep", "list", "number", "cut off"],
)  # fmt: skip
def test_other_files_are_refused(store: Store, tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.gnn.json"
    path.write_bytes(data)
    with pytest.raises(CutegenError, match=said):
        import_run_file(store, path)
    with pytest.raises(UsageError, match="cannot read"):
        import_run_file(store, tmp_path / "missing.gnn.json")


@pytest.mark.parametrize("text", [b" ", b"\n"])
def test_a_bomb_is_not_unpacked(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 100_000)
    monkeypatch.setattr(run_file, "LONGEST_LINE", 100_000)
    path = tmp_path / "bomb.gnn.json.gz"
    path.write_bytes(gzip.compress(text * 200_000))
    with pytest.raises(CutegenError, match="more than 0 MiB"):
        import_run_file(store, path)
