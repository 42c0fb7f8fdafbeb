"""A real server and a real Chromium. Without a browser these tests fail on CI and skip, saying so, elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
START_TIMEOUT_S = 60
PATIENCE_MS = 45_000


@dataclass
class Server:
    """`streamlit run app.py` on a port and a workspace of its own."""

    home: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.port = self.port or free_port()
        command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={self.port}"]
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--server.headless=true"], cwd=ROOT, stdout=log, stderr=log,
                env=os.environ | {"CUTEGEN_HOME": str(self.home)} | self.environment,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                return
            time.sleep(0.05)
        pytest.fail(f"the server did not start:\n{(self.home / 'server.log').read_text()[-3000:]}")

    def kill(self) -> None:
        """As the machine would: no warning, nothing cleaned up."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def engine_pid(self) -> int:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                return int((self.home / "engine.lock").read_text())
            time.sleep(0.1)
        pytest.fail("no engine has started")

    def kill_engine(self) -> int:
        pid = self.engine_pid()
        os.kill(pid, signal.SIGKILL)
        return pid


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the machine's caches, so that nothing is built again, and a store of its own."""
    home = tmp_path_factory.mktemp("home")
    cache = Path(os.environ.get("CUTEGEN_HOME", Path.home() / ".local" / "share" / "cutegen")) / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (home / "cache").symlink_to(cache)
    return home


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[Server]:
    server = Server(home)
    server.start()
    yield server
    server.kill()
    with contextlib.suppress(OSError, ValueError):
        server.kill_engine()


@pytest.fixture(scope="session")
def alone(workspace_home: Path) -> None:
    """Two workers that drive browsers wait for each other and time out; the groups in tests/conftest.py see to one."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    claimed = workspace_home.parent / f"browser-{os.environ.get('PYTEST_XDIST_TESTRUNUID', '')}"
    if worker:
        with contextlib.suppress(FileExistsError):
            claimed.open("x").write(worker)
        if claimed.read_text() not in ("", worker):
            pytest.fail(f"{claimed.read_text()} and {worker} both drive a browser: run with --dist loadgroup")


@pytest.fixture(scope="session")
def browser(alone: None) -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        said = f"no browser: none of {', '.join(BROWSERS)} is in PATH; install one (`apt install chromium`)"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    context.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
