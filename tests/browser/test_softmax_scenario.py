"""A person's whole way through the workbench, with nothing replaced: compiler, emulator, engine, server, browser.

The problem is a file with few sizes, so that its trials take few runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import shortcut, state_of, stop_of, title_of, widget_of
from tests.browser.editing import open_editor, replace_text, text_of
from tests.places import DATA
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

FEW_RUNS = DATA / "few_runs" / "softmax.py"
"""The catalogue's softmax with one small size. A file in one place: what it says of itself is kept by its path."""
FIRST_EVER_MS = 240_000
"""The very first trial on a machine builds the emulator's headers."""


def edit(page: Page, change: Callable[[str], str]) -> None:
    """Open the editor, change the text and run it with the keyboard."""
    editor = open_editor(page)
    replace_text(page, change(text_of(page)))
    editor.press("Control+Enter")


def too_large(source: str) -> str:
    """Return a bug: what is written last is one too large."""
    before, assignment, value = source.rpartition(") = static_cast<float>(")
    assert assignment, source
    return f"{before}{assignment}1.0f + {value}"


def test_from_the_first_approval_to_acceptance(server: Server, page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.goto(f"{server.url}/problems?path={FEW_RUNS}&name=softmax")
    page.get_by_role("button", name="Load").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(state_of(page)).to_be_visible()
    page.emulate_media(reduced_motion="reduce")  # while the engine starts, motion would take a core
    expect(state_of(page)).to_contain_text("awaiting review", timeout=FIRST_EVER_MS)
    page.emulate_media(reduced_motion="no-preference")
    expect(page.get_by_text("Review, then compile")).to_be_visible()

    # Without motion from here, as in the other tests.
    page.emulate_media(reduced_motion="reduce")

    # Approve the first diff with its key: compile, correctness and resources appear.
    shortcut(page, "a")
    expect(page.get_by_text("Review the verdict", exact=False)).to_be_visible(timeout=FIRST_EVER_MS)
    expect(stop_of(page, "COMPILE")).to_contain_text("passed")
    expect(stop_of(page, "TEST")).to_contain_text("passed")
    expect(stop_of(page, "BENCHMARK")).to_contain_text("needs a GPU")
    expect(page.get_by_text("runs correct on")).to_be_visible()
    widget_of(page, "radio", "resources").click()
    expect(page.get_by_text("registers", exact=True).first).to_be_visible()
    expect(page).to_have_url(re.compile("pane=resources"))
    widget_of(page, "radio", "correctness").click()
    expect(page).to_have_url(re.compile("pane=correctness"))

    # A bug by hand: every output is a little too large. The verdict names the coordinates.
    promoted = page.url
    edit(page, too_large)
    expect(page.locator(".cg-outcome")).to_contain_text("Wrong result", timeout=FIRST_EVER_MS)
    expect(page.locator(".cg-outcome")).to_contain_text("first at [0, 0]")
    expect(page.locator(".cg-table", has_text="want").first).to_contain_text("[0, 0]")
    expect(stop_of(page, "TEST")).to_contain_text("failed")
    link = page.url

    # The same on a reload.
    page.reload()
    expect(page.locator(".cg-outcome")).to_contain_text("first at [0, 0]")

    # The server dies without warning; the engine, the session and the address live on.
    server.kill()
    server.start()
    page.goto(link)
    expect(page.locator(".cg-outcome")).to_contain_text("first at [0, 0]")

    # Rewind to the first step, go on, approve what comes.
    page.get_by_role("link", name=re.compile("^Step 1:")).click()
    expect(title_of(page)).to_contain_text("Step 1")
    shortcut(page, "w")
    expect(title_of(page)).to_contain_text("Step 3")
    expect(page.get_by_text("Review, then compile", exact=False)).to_be_visible()

    # The engine dies in the middle of the trial; it is started again and the trial is carried out.
    shortcut(page, "a")
    expect(stop_of(page, "COMPILE")).to_contain_text(re.compile("running|passed"))
    server.kill_engine()
    page.reload()
    expect(page.get_by_text("Review the verdict", exact=False)).to_be_visible(timeout=FIRST_EVER_MS)
    expect(stop_of(page, "TEST")).to_contain_text("passed")

    page.get_by_role("button", name=re.compile("^Accept 3")).click()
    expect(state_of(page)).to_contain_text("accepted", timeout=FIRST_EVER_MS)
    assert promoted.split("id=")[1][:10] in page.url
    page.reload()
    expect(state_of(page)).to_contain_text("accepted")
