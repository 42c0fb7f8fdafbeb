"""The page GNN training by Streamlit's own runner: settings, errors beside fields, runs, one run, imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cutegen_core.engine import job_slot
from cutegen_core.records import as_json
from cutegen_core.records.gnn import RunSettings
from cutegen_core.records.job import JobKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.engine.double_engine import DOUBLE
from tests.engine.test_jobs import ended, slot
from tests.pages.conftest import OpenPage, shown
from tests.session.real_sessions import wait_until

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture(autouse=True)
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(job_slot.PROGRAMS, JobKind.GNN, job_slot.PROGRAMS[JobKind.GNN]._replace(module=DOUBLE))
    return


def field(page: AppTest, name: str):
    key = f"gnn-{name.replace('.', '-')}"
    return next(e for e in (*page.text_input, *page.selectbox) if e.key == key)


def test_a_run_starts_from_the_page_and_shows_its_progress(open_page: OpenPage, store: Store) -> None:
    page = open_page("gnn")
    field(page, "epochs").set_value("2").run()
    field(page, "graph.nodes").set_value("2,000").run()
    assert store.query("SELECT COUNT(*) FROM jobs") == [(0,)], "nothing starts without a click"
    page.button(key="gnn-start").click().run()
    (job,) = jobs.every(store)
    settings = as_json.load(RunSettings, job.settings)
    assert (settings.epochs, settings.graph.nodes) == (2, 2000)
    with slot(store):
        wait_until(lambda: jobs.get(store, job.id).progress)
        running = open_page("gnn", job=job.id)
        assert "● running" in shown(running)
        assert running.button(key="gnn-stop")
        jobs.request_stop(store, job.id)
        ended(store, job.id)
    assert "■ stopped" in shown(open_page("gnn", job=job.id))
