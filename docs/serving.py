"""The application served on a workspace of its own, and a real browser on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from cutegen_core import workspace

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_S = 120
PATIENCE_MS = 60_000
QUIET_MS = 700
"""So long nothing may change before a picture is taken; the page looks for news every half second."""
_QUIET = """
([quiet, patience]) => new Promise((resolve, reject) => {
  const begin = performance.now();
  let last = begin;
  const watch = new MutationObserver(() => { last = performance.now(); });
  watch.observe(document.body, { subtree: true, childList: true });
  const look = () => {
    const now = performance.now(), busy = document.querySelector("[data-stale=true], [data-testid=stSkeleton]");
    if (!busy && now - last > quiet) { watch.disconnect(); resolve(); }
    else if (now - begin > patience) reject(new Error("the page does not come to rest"));
    else setTimeout(look, 50);
  };
  look();
})
"""


@contextmanager
def own_workspace() -> Iterator[Path]:
    """A workspace that is thrown away, with the caches of the real one."""
    cache = workspace.home() / "cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cutegen-pictures-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "cache").symlink_to(cache.resolve())
        os.environ["CUTEGEN_HOME"] = folder
        yield Path(folder)


@contextmanager
def served(home: Path, port: int) -> Iterator[str]:
    """The application's address, for as long as the block runs; its engine ends with it."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.headless=true"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        _wait(process, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        with suppress(OSError, ValueError):
            os.kill(int((home / "engine.lock").read_text()), signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
            return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


@contextmanager
def chromium() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is in PATH; install one (`apt install chromium`)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def settle(page: Page) -> None:
    """Waits until the page is drawn and stays as it is."""
    page.wait_for_selector(".cg-heading, .cg-title, .pr-slide", timeout=PATIENCE_MS)
    page.evaluate(_QUIET, [QUIET_MS, PATIENCE_MS])
