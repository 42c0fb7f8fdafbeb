"""Makes the README's pictures from stored sessions: `python -m docs.screenshots` writes assets/screenshots/*.png.

    --session ID    of the current workspace, instead of the drawn-up example

Needs Chromium; fails when a picture is larger than 300 KB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from cutegen_core import workspace
from cutegen_core.store import Store
from tests.pages.stories import softmax_story

ROOT = Path(__file__).parent.parent
PORT = 8656
LARGEST_BYTES = 300_000
SETTLED_MS = 2500
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--session")
    parser.add_argument("--output", type=Path, default=ROOT / "assets" / "screenshots")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cutegen-pictures-", ignore_cleanup_errors=True) as made_up:
        home = workspace.home() if arguments.session else Path(made_up)
        session = arguments.session or softmax_story(Store(home / "store.db")).session
        arguments.output.mkdir(parents=True, exist_ok=True)
        with _served(home):
            _shoot(arguments.output, session)
    return 0


def _shoot(folder: Path, session: str) -> None:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is in PATH; install one (`apt install chromium`)")
    shots = {
        "start": "/",
        "session": f"/session?id={session}",
        "session-race": f"/session?id={session}&step=2&view=split&pane=correctness",
        "session-resources": f"/session?id={session}&step=3&pane=resources",
        "compare": f"/compare?a={session}.1&b={session}.3",
        "problems": "/problems?name=softmax",
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("dark", "light"):
            context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
            for name, address in shots.items():
                if scheme == "dark" or name == "session":
                    _shoot_one(context.new_page(), address, folder / f"{name}-{scheme}.png")
        browser.close()


def _shoot_one(page: Page, address: str, target: Path) -> None:
    page.goto(f"http://127.0.0.1:{PORT}{address}")
    page.wait_for_selector(".cg-heading", timeout=60_000)
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=target)
    page.close()
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {size // 1000} KB")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{target} is larger than {LARGEST_BYTES // 1000} KB")


class _served:  # noqa: N801 - used as a statement
    """The application on a port of its own, for as long as the block runs."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __enter__(self) -> None:
        command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={PORT}"]
        self._process = subprocess.Popen(
            [*command, "--server.headless=true"], cwd=ROOT, stdout=subprocess.DEVNULL,
            env=os.environ | {"CUTEGEN_HOME": str(self._home)},
        )  # fmt: skip
        while self._process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/_stcore/health", timeout=2):
                return
            time.sleep(0.05)
        raise SystemExit("the server did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    sys.exit(main())
