"""The page GNN training by Streamlit's own runner: settings, errors beside fields, runs, one run, imports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cutegen_core.engine import job_slot
from cutegen_core.records import as_json
from cutegen_core.records.gnn import BatchStage, RunSettings, Span
from cutegen_core.records.gnn_fields import BY_NAME
from cutegen_core.records.job import JobKind
from cutegen_core.share.exports.run_file import recorded, write_run
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.engine.double_engine import DOUBLE
from tests.engine.test_jobs import ended, slot, submit
from tests.later import Later
from tests.pages.conftest import OpenPage, framed, shown
from tests.patience import wait_until
from tests.views.test_gnn_views import PLUGGED, epoch, run

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

access = Later("pages.components.access.access")
listing = Later("pages.components.gnn.listing")
SPANS = tuple(
    span for batch in range(4)
    for span in (
        Span(BatchStage.PREPARE, f"prepare {batch % 2}", batch, 0.1 * batch, 0.1 * batch + 0.15),
        Span(BatchStage.TRANSFER, "copy", batch, 0.1 * batch + 0.15, 0.1 * batch + 0.17),
        Span(BatchStage.COMPUTE, "compute", batch, 0.1 * batch + 0.17, 0.1 * batch + 0.26),
    )
)  # fmt: skip


@pytest.fixture(autouse=True)
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(job_slot.PROGRAMS, JobKind.GNN, job_slot.PROGRAMS[JobKind.GNN]._replace(module=DOUBLE))


def field(page: AppTest, name: str) -> Any:
    key = f"gnn-{name.replace('.', '-')}"
    return next(e for e in (*page.text_input, *page.selectbox) if e.key == key)


def has_field(page: AppTest, name: str) -> bool:
    return any(e.key == f"gnn-{name.replace('.', '-')}" for e in (*page.text_input, *page.selectbox))


def links(page: AppTest) -> list[tuple[str, str]]:
    return [(e.proto.label, e.proto.query_string) for e in page.get("page_link")]


def test_a_run_starts_from_the_page_and_shows_its_progress(open_page: OpenPage, store: Store) -> None:
    page = open_page("gnn")
    field(page, "epochs").set_value("2").run()
    field(page, "graph.nodes").set_value("2,000").run()
    assert jobs.every(store) == (), "nothing starts without a click"
    page.button(key="gnn-start").click().run()
    (job,) = jobs.every(store)
    settings = as_json.load(RunSettings, job.settings)
    assert (settings.epochs, settings.graph.nodes) == (2, 2000)
    with slot(store):
        wait_until(lambda: jobs.get(store, job.id).progress)
        running = open_page("gnn", job=job.id)
        assert "● running" in shown(running)
        running.button(key="gnn-stop").click().run()
        ended(store, job.id)
    stopped = open_page("gnn", job=job.id)
    assert "■ stopped" in shown(stopped)
    stopped.button(key="gnn-go-on").click().run()
    assert "○ waiting" in shown(open_page("gnn", job=job.id))


def test_what_is_wrong_stands_beside_its_field_and_nothing_starts(open_page: OpenPage, store: Store) -> None:
    page = open_page("gnn", **{"fanouts": "3,x", "epochs": "0", "aggregate": PLUGGED, "graph.source": "/no/such <b>"})
    text = shown(page)
    for said in (
        "&#x27;x&#x27; is no whole number from 1 to 1,000", "no whole number from 1 to 100,000", "no session",
        "/no/such &lt;b&gt; does not exist on this machine",
    ):  # fmt: skip
        assert said in text, said
    assert page.button(key="gnn-start").disabled
    assert not has_field(page, "graph.nodes"), "a graph on disk has its own nodes"
    field(page, "fanouts").set_value("3,2").run()
    assert "is no whole number from 1 to 1,000" not in shown(page)


def test_every_field_has_its_help(open_page: OpenPage) -> None:
    page = open_page("gnn")
    keys = {f"gnn-{name.replace('.', '-')}" for name in BY_NAME}
    fields = [e for e in (*page.text_input, *page.selectbox) if e.key in keys]
    assert len(fields) == len(BY_NAME)
    assert all(len(e.help) > 20 for e in fields)


def test_a_link_presets_the_form_and_starts_nothing(open_page: OpenPage, store: Store) -> None:
    like = run(store, [epoch()], replace(RunSettings(), hidden=48, layered=True)).job.id
    page = open_page("gnn", like=like, aggregate="spmm")
    assert [field(page, name).value for name in ("hidden", "layered", "aggregate")] == ["48", "yes", "spmm"]
    assert len(jobs.every(store)) == 1
    assert "no job" in shown(open_page("gnn", like="nothing"))


def test_a_finished_run_shows_overlap_figures_and_comparisons(open_page: OpenPage, store: Store) -> None:
    epochs = [epoch(1, timeline=SPANS), epoch(2, timeline=SPANS)]
    on_gpu = RunSettings(device="cuda")
    base = run(store, epochs, on_gpu, aggregate_share=0.5, sampled_accuracy=0.9004, sampled_seconds=2.0,
               full_accuracy=0.9027, features_only_accuracy=0.495, notes=("a <note>",))  # fmt: skip
    run(store, [epoch(1, 2.1)], replace(on_gpu, ranks=2))
    plugged = run(store, [epoch(1, 2.5)], replace(on_gpu, aggregate=PLUGGED), kernel_note="from its cubin")
    text = shown(open_page("gnn", job=base.job.id))
    for said in (
        "P: epoch over its longest stage", "90.0 % in 2 s", "90.3 %", "49.5 %", "computed on cpu",
        "prepare 0: 2 batches, busy 300 of 350 ms", "The trainer waited for batches to be prepared for 0.6 s, 15 % of",
        "A kernel can give at most 1.60x here", "2 ranks: 2.1 s an epoch", "a &lt;note&gt;",
    ):  # fmt: skip
        assert said in text, said
    page = open_page("gnn", job=plugged.job.id)
    assert "The plugged kernel gave 1.60x over embedding_bag." in shown(page)
    assert "from its cubin" in shown(page)
    assert any(base.job.id in query for _, query in links(page))


def test_a_declared_sleep_is_never_shown_as_a_computation(open_page: OpenPage, store: Store) -> None:
    view = run(store, [epoch(timeline=SPANS)], replace(RunSettings(), device="sleep:20"))
    text = shown(open_page("gnn", job=view.job.id))
    assert "declared sleep of 20 ms per step, nothing computed" in text
    assert "A declared sleep computed nothing: there is no loss and no accuracy." in text
    assert ">declared sleep</td>" in text
    assert "before and after" not in text


def test_a_failed_run_shows_its_error_and_its_log_as_text(open_page: OpenPage, store: Store) -> None:
    job = submit(store, "crash")
    with slot(store):
        ended(store, job)
    page = open_page("gnn", job=job)
    assert "✗ failed" in shown(page)
    assert "the card &lt;b&gt;fell&lt;/b&gt; out" in shown(page)
    page.toggle(key="gnn-log").set_value(True).run()
    assert "ended with exit code 7" in shown(page)


def test_a_recorded_run_opens_from_a_file(open_page: OpenPage, store: Store, tmp_path: Path) -> None:
    view = run(store, [epoch(timeline=SPANS)], replace(RunSettings(), device="cuda"), machine={"device": "NVIDIA H200"})
    file = tmp_path / "h200.gnn.json"
    write_run(recorded(store, view.job.id), file)
    page = open_page("gnn")
    page.text_input(key="gnn-import-path").set_value(str(file))
    page.button(key="gnn-import-open").click().run()
    imported = next(job for job in jobs.every(store) if job.imported)
    text = shown(open_page("gnn", job=imported.id))
    assert "This run was imported from h200.gnn.json, computed on NVIDIA H200: nothing ran on this machine." in text
    file.write_text("{}")
    page = open_page("gnn")
    page.text_input(key="gnn-import-path").set_value(str(file))
    page.button(key="gnn-import-open").click().run()
    assert "no recorded GNN run" in shown(page)


def test_a_shipped_recording_is_opened_once(
    open_page: OpenPage, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = run(store, [epoch(timeline=SPANS)], RunSettings(device="cuda"), machine={"device": "NVIDIA H200"})
    write_run(recorded(store, view.job.id), tmp_path / "sage-h200.gnn.json.gz")
    monkeypatch.setattr(listing, "RECORDINGS", tmp_path)
    for _ in range(2):
        open_page("gnn").button(key="gnn-recording-sage-h200.gnn.json.gz").click().run()
    assert [job.origin for job in jobs.every(store) if job.imported] == ["imported from sage-h200.gnn.json.gz"]


def test_who_looks_on_sees_everything_and_starts_stops_and_imports_nothing(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = submit(store)
    done = run(store, [epoch(timeline=SPANS)]).job.id
    monkeypatch.setattr(access, "role", lambda: access.AccessRole.VIEWER)
    page = open_page("gnn")
    assert page.button(key="gnn-start").disabled
    assert not [e for e in page.text_input if e.key == "gnn-import-path"]
    assert open_page("gnn", job=waits).button(key="gnn-stop").disabled
    assert "P: epoch over its longest stage" in shown(open_page("gnn", job=done))


def test_an_unknown_run_says_so(store: Store) -> None:
    assert "no job &#x27;nothing&#x27; in this workspace" in shown(framed("gnn", job="nothing"))
