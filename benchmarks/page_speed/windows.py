"""Browser windows of people who do not know of each other, with the watch installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from playwright.sync_api import Browser, Page

from benchmarks.page_speed import watch

VIEWPORT = {"width": 1440, "height": 900}


@contextmanager
def tabs(started: Browser, count: int = 1) -> Iterator[list[Page]]:
    with ExitStack() as stack:
        pages = []
        for _ in range(count):
            context = started.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
            stack.callback(context.close)
            context.add_init_script(watch.SCRIPT)
            pages.append(context.new_page())
        yield pages
