"""The page Bench in a browser: a bench is started, watched to its end, and its sessions are a click away; axe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.read import summary_of
from cutegen_core.trajectory.store import Store
from tests.browser.driving import button_of, field_of, press, settled, state_of
from tests.browser.test_accessibility import Checked
from tests.few_runs import few_runs_file
from tests.pages.bench_stories import bench_story
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LONG_MS = 240_000


@pytest.mark.thorough
def test_a_bench_is_started_watched_and_its_session_opened(
    server: Server, store: Store, page: Page, tmp_path: Path
) -> None:
    few_runs_file("relu", tmp_path, "10_relu")
    (tmp_path / "1_broken.py").write_text("nothing = 1\n")
    page.goto(f"{server.url}/bench")
    field_of(page, "Problems").click()
    page.get_by_role("option", name="a folder of files").click()
    field_of(page, "Folder").fill(str(tmp_path))
    field_of(page, "Folder").press("Enter")
    field_of(page, "Max. steps of a session").fill("1")
    field_of(page, "Max. steps of a session").press("Enter")
    press(page, "Start with 2 problems")
    page.wait_for_url(re.compile("bench="))
    expect(state_of(page)).to_contain_text("done", timeout=LONG_MS)
    expect(page.locator("body")).to_contain_text("Nothing was timed")
    expect(page.locator(".st-key-bench-lines")).to_contain_text("has no Model")
    expect(button_of(page, "Stop")).to_have_count(0)
    page.get_by_role("link", name="10_relu").click()
    page.wait_for_url(re.compile("session"))
    found = re.search(r"id=(\w+)", page.url)
    assert found
    expect(page.get_by_role("heading", name="10_relu")).to_be_visible()
    assert summary_of(store, found[1]).status in (SessionState.EXHAUSTED, SessionState.ACCEPTED)


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing(server: Server, store: Store, page: Page, theme: str) -> None:
    before, bench = bench_story(store), bench_story(store, faster=1.25)
    checked = Checked(page)
    page.emulate_media(color_scheme=theme)
    for address in ("bench", f"bench?bench={bench}&against={before}"):
        page.goto(f"{server.url}/{address}")
        settled(page)
        checked.look(address, theme)
    assert not checked.ours, "\n".join(checked.ours)
