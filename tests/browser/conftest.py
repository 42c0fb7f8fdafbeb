"""A real server and a real Chromium. Without a browser these tests fail on CI and skip, saying so, elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from cutegen_core.trajectory.store import Store
from tests.patience import PATIENCE_S
from tests.serving import NotServedError, Server, chromium, served

PATIENCE_MS = 1000 * PATIENCE_S
LOOKS: dict[str, Any] = {
    "viewport": {"width": 1440, "height": 900}, "color_scheme": "dark", "reduced_motion": "reduce",
}  # fmt: skip
"""Without motion: what Streamlit moves while it loads is drawn by the processor, sixty times a second, and doubles what
a page costs. `test_softmax_scenario` looks at the pages in motion."""
QUICKER = (
    "--disable-gpu-compositing", "--disable-software-rasterizer", "--process-per-site",
    "--js-flags=--no-opt --no-maglev --min-semi-space-size=64 --single-threaded-gc --initial-heap-size=1024"
    " --no-incremental-marking --no-flush-bytecode",
)  # fmt: skip
"""A page is looked at for a second or two: optimizing its scripts costs more than it brings; so do a small heap, and
forgetting what was compiled for the page before."""

_SITE = "http://127.0.0.1/"
"""Chromium gives a process to a site, whatever the port."""

NewPage = Callable[..., Page]


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "forks", True)
        yield


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, workspace_home: Path) -> Path:
    """A workspace with the run's caches, so that nothing is built again, and a store of its own."""
    home = tmp_path_factory.mktemp("home")
    cache = workspace_home / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (home / "cache").symlink_to(cache)
    return home


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[Server]:
    with served(home) as server:
        yield server


@pytest.fixture
def store(server: Server) -> Store:
    return Store(server.home / "store.db")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        with chromium(*QUICKER) as browser:
            expect.set_options(timeout=PATIENCE_MS)
            yield browser
    except NotServedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens a page as another visitor would: nothing is shared with the pages before. All are closed at the end, since
    a page that is left open goes on asking the server."""
    contexts = []

    def opened(**options: Any) -> Page:
        contexts.append(browser.new_context(**LOOKS | options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """The visitor of tests that need one page. An empty page keeps its process, which has compiled Streamlit's scripts:
    half of what opening a page costs. The visitor keeps Streamlit's files, too: nothing stays routed, which would have
    the browser ask for every file of every page again."""
    context = browser.new_context(**LOOKS)
    context.route(_SITE, lambda route: route.fulfill(body=""))
    context.new_page().goto(_SITE)
    context.unroute(_SITE)
    yield context
    context.close()


@pytest.fixture(scope="session")
def kept_tab(visitor: BrowserContext) -> Page:
    return _new_tab(visitor)


@pytest.fixture
def page(visitor: BrowserContext, kept_tab: Page) -> Iterator[Page]:
    """The tab of a visitor who brings nothing of an earlier test: a page costs a third less than in a new tab. What a
    test does to the tab itself (scripts, listeners) would stay, and its history is full: that needs `own_tab`."""
    kept_tab.set_viewport_size(LOOKS["viewport"])
    kept_tab.emulate_media(color_scheme=LOOKS["color_scheme"], reduced_motion=LOOKS["reduced_motion"])
    yield kept_tab
    _leave_nothing(visitor, kept_tab)
    kept_tab.goto("about:blank")
    kept_tab.mouse.move(0, 0)


@pytest.fixture
def own_tab(visitor: BrowserContext, kept_tab: Page) -> Iterator[Page]:
    """A new tab of the visitor."""
    tab = _new_tab(visitor)
    yield tab
    _leave_nothing(visitor, tab)


def _new_tab(visitor: BrowserContext) -> Page:
    tab = visitor.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    return tab


def _leave_nothing(visitor: BrowserContext, tab: Page) -> None:
    """Forget what pages have kept, and close what tests have opened: not the empty page, and not the kept tab."""
    if tab.url.startswith("http"):
        tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    for opened in visitor.pages[2:]:
        opened.close()
    visitor.clear_cookies()
