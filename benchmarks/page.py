"""How quickly the pages answer: first useful picture of the start page, and a rerun of a session page with many steps.

python -m benchmarks.page

The first number is from a browser's first request to a server that has just come up, until the start page shows what
can be done (headless Chromium). The second is the server's own time for one rerun of the session page over 200 tested
steps, for every evidence pane, by Streamlit's test runner (no browser).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from benchmarks.conditions import write
from cutegen_core.store import Store
from tests.pages.gpu_stories import long_gpu_story

ROOT = Path(__file__).parent.parent
PORT = 8655
STEPS, RERUNS, VISITS = 200, 20, 5
TIMED_STEP = 193
USEFUL = "text=Start a new session"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    load = round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory(prefix="cutegen-page-", ignore_cleanup_errors=True) as home:
        os.environ["CUTEGEN_HOME"] = home
        run = {"load_before": load, "session_page": session_page(), "start_page": start_page(home)}
    write("page", run)


def session_page() -> dict[str, Any]:
    """Milliseconds of reruns, the first (which parses and highlights) apart; three of four steps were timed."""
    story = long_gpu_story(Store(), STEPS)
    panes = {}
    for pane in ("correctness", "timing", "roofline", "profile", "resources", "sass", "log", "prompt"):
        page = AppTest.from_file(str(ROOT / "pages" / "session.py"), default_timeout=60)
        page.query_params["id"], page.query_params["pane"] = story.session, pane
        page.query_params["step"] = str(TIMED_STEP)
        times = [_timed_ms(page) for _ in range(RERUNS + 1)]
        panes[pane] = {"first_ms": round(times[0], 1), **_spread(times[1:])}
    return {"steps": STEPS, "reruns": RERUNS, "panes": panes}


def _timed_ms(page: AppTest) -> float:
    begun = time.perf_counter()
    page.run()
    taken = 1000 * (time.perf_counter() - begun)
    if page.exception:
        raise SystemExit(f"the page failed: {page.exception[0].value}")
    return taken


def start_page(home: str) -> dict[str, Any] | str:
    """Milliseconds from the request to the useful picture; the server's start is told apart."""
    browser_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser_path is None:
        return f"not measured: none of {', '.join(BROWSERS)} is installed"
    from playwright.sync_api import sync_playwright

    cold, up = [], []
    with sync_playwright() as playwright:
        for _ in range(VISITS):
            begun = time.perf_counter()
            with _server(home):
                up.append(1000 * (time.perf_counter() - begun))
                browser = playwright.chromium.launch(
                    executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                begun = time.perf_counter()
                page.goto(f"http://127.0.0.1:{PORT}/")
                page.wait_for_selector(USEFUL, timeout=60_000)
                cold.append(1000 * (time.perf_counter() - begun))
                browser.close()
    return {"visits": VISITS, "fresh_browser_and_server": _spread(cold), "server_up": _spread(up)}


@contextmanager
def _server(home: str) -> Iterator[None]:
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={PORT}", "--server.headless=true"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"CUTEGEN_HOME": home},
    )  # fmt: skip
    try:
        while True:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/_stcore/health", timeout=2):
                break
            if process.poll() is not None:
                raise SystemExit(f"the server left with {process.returncode}; is port {PORT} taken?")
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median_ms": round(statistics.median(ordered), 1), "min_ms": round(ordered[0], 1),
        "max_ms": round(ordered[-1], 1),
    }  # fmt: skip


if __name__ == "__main__":
    main()
