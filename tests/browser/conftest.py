"""A real server and a real Chromium. Without a browser these tests fail on CI and skip, saying so, elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cutegen_core.trajectory.store import Store
from tests.serving import NotServedError, Server, chromium, served

PATIENCE_MS = 45_000


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
def alone(workspace_home: Path) -> None:
    """Two workers that drive browsers wait for each other and time out; the groups in tests/conftest.py see to one."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    claimed = workspace_home.parent / f"browser-{os.environ.get('PYTEST_XDIST_TESTRUNUID', '')}"
    if worker:
        with suppress(FileExistsError):
            claimed.open("x").write(worker)
        if claimed.read_text() not in ("", worker):
            pytest.fail(f"{claimed.read_text()} and {worker} both drive a browser: run with --dist loadgroup")


@pytest.fixture(scope="session")
def browser(alone: None) -> Iterator[Browser]:
    try:
        with chromium() as browser:
            yield browser
    except NotServedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    context.close()
