"""GNN training in a browser: runs are started, watched, finished, stopped; an evolved kernel is tried in an epoch."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.records.job import JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from tests.browser.conftest import LOOKS, NewPage
from tests.browser.driving import button_of, field_of, press, shortcut, state_of, widget_of
from tests.browser.test_accessibility import WIDER, ZOOMED, Checked, settled
from tests.pages.test_gnn_page import SPANS
from tests.patience import SOON_S, wait_until
from tests.serving import Server
from tests.views.test_gnn_views import epoch, run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LONG_MS = 240_000
TINY = "graph.nodes=400&graph.degree=4&graph.width=8&graph.classes=4&fanouts=2,2&inference_fanouts=2,2&hidden=8"


def chip(page: Page, state: str, timeout_ms: int = LONG_MS) -> None:
    """Expect the run's state, once it is this."""
    expect(page.locator(".cg-header .cg-chip").first).to_contain_text(state, timeout=timeout_ms)


def field(page: Page, label: str) -> Locator:
    return widget_of(page, "textbox", label, exact=True)


def job_of(page: Page) -> str:
    found = re.search(r"job=(\w+)", page.url)
    assert found, page.url
    return found[1]


@pytest.mark.thorough
def test_a_run_is_started_watched_and_finished(server: Server, store: Store, page: Page) -> None:
    page.goto(f"{server.url}/gnn?{TINY}&batch_size=64&epochs=2")
    expect(field(page, "Epochs")).to_have_value("2")
    shortcut(page, "g")
    page.wait_for_url(re.compile("job="))
    first = job_of(page)
    chip(page, "done")
    expect(page.locator(".st-key-gnn-timeline .js-plotly-plot")).to_be_visible()
    expect(page.locator(".st-key-gnn-timeline .barlayer path").first).to_be_attached()
    expect(page.locator("body")).to_contain_text("computed on this CPU")
    expect(page.locator("body")).to_contain_text("P: epoch over its longest stage")
    assert jobs.get(store, first).state is JobState.DONE
    with page.expect_download() as download:
        button_of(page, "Download").click()
    assert download.value.suggested_filename == f"{first}.gnn.json"
    page.reload()
    chip(page, "done")
    page.goto(f"{server.url}/gnn?like={first}&epochs=5000")
    expect(field(page, "Epochs")).to_have_value("5000")
    expect(field(page, "Mean degree")).to_have_value("4")


@pytest.mark.thorough
def test_a_run_is_stopped(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/gnn?{TINY}&batch_size=64&epochs=5000")
    expect(field(page, "Epochs")).to_have_value("5000")
    press(page, "Start the run")
    chip(page, "running")
    expect(page.locator("[data-testid=stProgress]")).to_contain_text("of 5000", timeout=LONG_MS)
    press(page, "Stop")
    chip(page, "stopped")


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_and_twice_the_size_all_is_in_reach(
    server: Server, store: Store, page: Page, theme: str
) -> None:
    shown = run(store, [epoch(1, timeline=SPANS), epoch(2, timeline=SPANS)], aggregate_share=0.5, sampled_accuracy=0.9)
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    checked = Checked(page)
    for address in ("gnn?epochs=0", f"gnn?job={shown.job.id}"):
        page.goto(f"{server.url}/{address}")
        settled(page)
        expect(page.locator(".js-plotly-plot, .cg-field-error").first).to_be_visible()
        checked.look(address, theme)
        page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
        wait_until(lambda at=address: page.evaluate(WIDER) <= 1, f"{address} is wider than the window", SOON_S)  # type: ignore[misc]
        page.set_viewport_size(LOOKS["viewport"])
    assert not checked.ours, "\n".join(checked.ours)


@pytest.mark.thorough
def test_a_kernel_evolved_on_the_emulator_is_accepted_and_tried_in_an_epoch(
    server: Server, store: Store, new_page: NewPage
) -> None:
    page = new_page()
    page.goto(f"{server.url}/?problem=gather_mean")
    expect(field_of(page, "Problem")).to_have_value(re.compile("gather_mean: "))
    field_of(page, "Max. steps").fill("1")
    field_of(page, "Max. steps").press("Enter")
    field_of(page, "Autonomy").first.click()
    page.get_by_role("option", name="auto", exact=True).click()
    press(page, "Start")
    expect(state_of(page)).to_contain_text("exhausted", timeout=LONG_MS)
    press(page, "Accept", "f", by="key")
    expect(state_of(page)).to_contain_text("accepted", timeout=LONG_MS)
    page.get_by_role("link", name="Try it in an epoch").click()
    session = store.sessions()[0]
    expect(widget_of(page, "combobox", "Aggregation")).to_have_value(re.compile(session))
    assert jobs.every(store) == () or jobs.every(store)[0].is_over, "nothing starts without a click"
    for label, text in (("Nodes", "400"), ("Mean degree", "4"), ("Features", "8"), ("Classes", "4"), ("Fanouts", "2,2"),
                        ("Hidden width", "8"), ("Batch", "64"), ("Epochs", "1")):  # fmt: skip
        field(page, label).fill(text)
        field(page, label).press("Enter")
    press(page, "Start the run")
    chip(page, "done")
    body = page.locator("body")
    expect(body).to_contain_text("The plugged kernel: ")
    expect(body).to_contain_text("K needs a run of one of PyTorch's aggregations")
    plugged = job_of(page)
    page.get_by_role("link", name="Run embedding_bag with these settings").click()
    press(page, "Start the run")
    chip(page, "done")
    page.goto(f"{server.url}/gnn?job={plugged}")
    expect(body).to_contain_text("The kernel ran on the emulator: its results count, its time does not.")
    losses = [side.loss for side in gnn.beside(store, gnn.run_view(store, plugged)).sides]
    assert losses == pytest.approx([losses[0]] * 2, rel=1e-3), "another aggregation keeps the loss"
