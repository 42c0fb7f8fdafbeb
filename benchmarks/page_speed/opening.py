"""The first useful picture of a fresh server, and a session of many steps opened from the list and by its address."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from benchmarks.page_speed import watch, windows
from benchmarks.page_speed.changes import USEFUL
from benchmarks.page_speed.watch import Sign
from tests.serving import served

ROWS = ".st-key-steps >>> .row"


def first_picture(home: Path, started: Browser, visits: int) -> dict[str, Any]:
    """Time the first useful picture of a browser that has loaded nothing yet.

    From its navigation, as soon as the server answers, and from the start of the server's process.
    """
    since_up, since_start = [], []
    for _ in range(visits):
        begun = time.monotonic()
        with served(home) as server, windows.tabs(started) as [page]:
            since_up.append(watch.opened(page, server.url, USEFUL["Start"][1]))
            since_start.append(1000 * (time.monotonic() - begun))
    return {"after_the_server_is_up": watch.spread(since_up), "after_its_start": watch.spread(since_start)}


def long_session(started: Browser, url: str, session: str, steps: int, visits: int) -> dict[str, Any]:
    """Time the timeline with its newest and its oldest step, the source and the evidence: until all can be seen.

    A click opens it in a browser that has the application loaded; the address also in one that has to load it first.
    """
    signs = (
        Sign(ROWS, f"^{steps}\\D"), Sign(ROWS, "idea 0:"),
        Sign(".st-key-code-pane", "\\w"), Sign(".st-key-evidence-body", "\\w"),
    )  # fmt: skip
    clicked, linked, fresh, stepped = [], [], [], []
    address = f"{url}/session?id={session}"
    with windows.tabs(started) as [page]:
        for _ in range(visits):
            watch.opened(page, url, USEFUL["Start"][1])
            watch.arm(page, signs, path="/session")
            page.locator(f".st-key-session-row-{session} a").click()
            clicked.append(watch.seen(page).took_ms)
            linked.append(watch.opened(page, f"{address}&step={steps // 2}", signs))
            for number in (steps - 3, steps - 6):
                watch.arm(page, [Sign(".cg-step-title", f"Step {number}\\b"), *signs])
                _step(page, number).click()
                stepped.append(watch.seen(page).took_ms)
    for _ in range(visits):
        with windows.tabs(started) as [page]:
            fresh.append(watch.opened(page, address, signs))
    return {"steps": steps, "click_on_the_start_page": watch.spread(clicked), "address": watch.spread(linked),
            "address_in_a_fresh_browser": watch.spread(fresh), "click_on_a_step": watch.spread(stepped)}  # fmt: skip


def _step(page: Page, number: int) -> Locator:
    return page.locator(".st-key-steps").get_by_role("link", name=f"Step {number}:")
