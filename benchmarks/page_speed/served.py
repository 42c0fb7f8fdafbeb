"""The served application with a workspace of its own, and browsers that look at it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.page_speed import watch
from cutegen_core import workspace

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
START_S = 60.0
VIEWPORT = {"width": 1440, "height": 900}


@contextmanager
def fresh_workspace() -> Iterator[Path]:
    """A workspace without sessions; the compiler's and the emulator's caches are the machine's, and warm."""
    cache = workspace.home() / "cache"
    with tempfile.TemporaryDirectory(prefix="cutegen-speed-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        if cache.is_dir():
            (home / "cache").symlink_to(cache)
        before = os.environ.get("CUTEGEN_HOME")
        os.environ["CUTEGEN_HOME"] = folder
        try:
            yield home
        finally:
            os.environ.pop("CUTEGEN_HOME")
            if before is not None:
                os.environ["CUTEGEN_HOME"] = before


@contextmanager
def served(home: Path) -> Iterator[str]:
    """The application's address; the server and its engine end with the context."""
    port = _free_port()
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.headless=true"],
            cwd=ROOT, stdout=log, stderr=log, env=os.environ | {"CUTEGEN_HOME": str(home)},
        )  # fmt: skip
        try:
            _wait_until_up(process, port, home / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()
            with suppress(OSError, ValueError):
                os.kill(int((home / "engine.lock").read_text()), signal.SIGTERM)


@contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


@contextmanager
def tabs(started: Browser, count: int = 1) -> Iterator[list[Page]]:
    """Windows of people who do not know of each other, each with the watch installed."""
    with ExitStack() as stack:
        pages = []
        for _ in range(count):
            context = started.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
            stack.callback(context.close)
            context.add_init_script(watch.SCRIPT)
            pages.append(context.new_page())
        yield pages


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
            return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise SystemExit(f"the server did not come up:\n{log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
