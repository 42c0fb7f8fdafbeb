"""What a newcomer meets: the tour of a recorded session, once; and files that are written while they go on."""

from __future__ import annotations

import gzip
import json

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.job import JobKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.browser.driving import button_of, field_of, settled, shortcut, title_of
from tests.pages.stories import softmax_story
from tests.serving import Server

pytestmark = pytest.mark.browser

TOUR = ".cg-tour"


def opened_recording(page: Page, server: Server) -> None:
    page.goto(server.url)
    settled(page)  # what is drawn above the recordings moves them, and a click would meet another one
    page.get_by_role("button", name="recorded on NVIDIA H200").first.click()
    expect(title_of(page)).to_be_visible()


def test_the_tour_leads_over_the_real_page_and_does_not_come_back(page: Page, server: Server) -> None:
    softmax_story(Store(server.home / "store.db"))
    opened_recording(page, server)
    expect(page.get_by_role("dialog", name="Guided tour, 1 of 5")).to_be_visible()
    expect(page.locator(f"{TOUR} .cg-tour-next")).to_be_focused()
    page.set_viewport_size({"width": 1024, "height": 768})  # the pane of the steps is not shown
    expect(page.locator(".cg-tour-frame")).to_be_hidden()
    expect(page.locator(TOUR)).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator(".cg-tour-frame")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(TOUR)).to_contain_text("Stages")
    card, frame = page.locator(TOUR).bounding_box(), page.locator(".cg-rail").bounding_box()
    assert card is not None
    assert frame is not None
    assert card["y"] >= frame["y"] + frame["height"] or card["y"] + card["height"] <= frame["y"]
    shortcut(page, "o")
    expect(title_of(page)).to_contain_text("Step 8")
    expect(page.locator(TOUR)).to_contain_text("2 of 5")
    page.get_by_role("button", name="Skip the tour").click()
    expect(page.locator(TOUR)).to_have_count(0)
    page.reload()
    settled(page)
    expect(page.locator(TOUR)).to_have_count(0)


@pytest.mark.thorough
def test_two_files_are_written_while_the_page_goes_on(page: Page, server: Server, store: Store) -> None:
    story = softmax_story(store)
    page.goto(f"{server.url}/session?id={story.session}&step=2")
    expect(title_of(page)).to_contain_text("Step 2")
    settled(page)
    for chosen in ("jsonl", "html"):
        if not field_of(page, "Format").is_visible():
            button_of(page, "Export").click()
        field_of(page, "Format").click()
        page.get_by_role("option", name=f"{chosen}:").click()
        page.get_by_role("button", name="Create file").click()
        expect(page.locator("[data-testid=stPopoverBody]")).to_contain_text(f"{chosen}:")
    page.keyboard.press("Escape")
    shortcut(page, "o")
    expect(title_of(page)).to_contain_text("Step 1")
    if not field_of(page, "Format").is_visible():
        button_of(page, "Export").click()
    offered = page.get_by_role("button", name="Download softmax")
    expect(offered).to_have_count(2)
    with page.expect_download() as started:
        offered.filter(has_text="jsonl").click()
    with gzip.open(started.value.path()) as lines:
        assert json.loads(next(iter(lines)))["session"] == story.session
    assert all(job.is_over for job in jobs.every(store, JobKind.EXPORT))
