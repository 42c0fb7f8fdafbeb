"""Every page to every other by a click in the navigation, until what the page is for can be seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page

from benchmarks.page_speed import watch
from benchmarks.page_speed.watch import Sign

LINKS = '[data-testid="stTopNavLink"]'
USEFUL = {
    "Start": ("/", (Sign("button", "^Start$"), Sign("h2", "Continue a session"))),
    "Session": ("/session", (Sign(".cg-note", "No session selected"), Sign("a", "softmax.*step"))),
    "Compare": ("/compare", (Sign(".st-key-code-pane", "\\w"), Sign("h2", "^Resources$"))),
    "Layouts": ("/layouts", (Sign("textarea"), Sign(".cg-layout", "."))),
    "Problems": ("/problems", (Sign(".st-key-problem-list", "softmax"), Sign("h2", "^Start a session$"))),
    "Present": ("/present", (Sign("h2", "^Present a session$"), Sign("h2", "^Recorded sessions$"))),
    "Bench": ("/bench", (Sign("h2", "^New bench$"), Sign("button", "^Start"))),
    "GNN training": ("/gnn", (Sign("h2", "^Graph$|^Runs"), Sign("button", "^Start"))),
    "Setup": ("/setup", (Sign("h2", "^System check$"), Sign("table", "python"))),
}
"""Address and signs of each page, without a query, over a workspace with sessions."""


def page_changes(page: Page, url: str, rounds: int) -> dict[str, Any]:
    """Time every change of pages, first visits apart: they compile a layout and look at the machine."""
    watch.opened(page, url, USEFUL["Start"][1])
    titles = [text.strip() for text in page.locator(LINKS).all_inner_texts()]
    if unknown := set(titles) - set(USEFUL):
        raise SystemExit(f"benchmarks/page_speed/changes.py does not know what {unknown} should show")
    first = {title: round(_go(page, title)) for title in (*titles[1:], titles[0])}
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for change in _walk(titles):
            times.setdefault(change, []).append(_go(page, change[1]))
    everything = [took for several in times.values() for took in several]
    to = {title: watch.spread([t for (_, b), several in times.items() if b == title for t in several])
          for title in titles}  # fmt: skip
    slowest = max(times, key=lambda change: max(times[change]))
    return {"pages": len(titles), "changes": len(times), "all": watch.spread(everything),
            "slowest_change": " to ".join(slowest), "to": to, "first_visit_ms": first}  # fmt: skip


def _go(page: Page, title: str) -> float:
    path, signs = USEFUL[title]
    watch.arm(page, signs, path=path)
    page.locator(LINKS).filter(has_text=title).click()
    return watch.seen(page).took_ms


def _walk(titles: list[str]) -> Iterator[tuple[str, str]]:
    """Return a closed walk from the first page in which every change occurs once."""
    left = {one: [other for other in titles if other != one] for one in titles}
    stack, closed = [titles[0]], []
    while stack:  # Hierholzer: every page has as many ways in as out
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            closed.append(stack.pop())
    return itertools.pairwise(reversed(closed))
