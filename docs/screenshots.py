"""Makes the README's pictures of sessions that really run: `python -m docs.screenshots`.

1. The playbook refines a softmax; a person breaks it twice by hand.
2. A language model, played by a server with written replies, refines one too; its first kernel does not compile.
3. The session recorded on an H200 is opened.
4. The served application is photographed; two pictures are of sessions that wait for the person at that moment.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, TimeoutError, sync_playwright

from cutegen_core import problems, sessions, workspace
from cutegen_core.decision import Decision, DecisionKind, Gate
from cutegen_core.imports import import_path
from cutegen_core.llm import model_settings
from cutegen_core.llm.model_settings import Models, ModelSettings
from cutegen_core.session import Session
from cutegen_core.session_state import State
from cutegen_core.store import Store
from cutegen_core.tools import Tools
from tests.model_server import ModelServer, reply
from tests.pages.stories import KERNEL

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "assets" / "recordings" / "softmax-h200.jsonl.gz"
PORT = 8656
LARGEST_BYTES = 300_000
SETTLED_MS = 2500
PLOT_MS = 15_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
USING = "using namespace cute;"
REPLIES = (
    "Idea: seed, one block a row\nEffect: correct, three reads of x\nRisk: none\n"
    f"```cpp\n{KERNEL.replace(USING, '')}```\n",
    "Cause: the names of CuTe are used without their namespace\n"
    "Evidence: line 35, identifier make_gmem_ptr is undefined, and all that follows from it\n"
    "Fix: open the namespace cute below the include; change nothing else",
    "Idea: seed, one block a row\n<<<<<<< SEARCH\n#include <cute/tensor.hpp>\n=======\n"
    f"#include <cute/tensor.hpp>\n{USING}\n>>>>>>> REPLACE\n",
)  # fmt: skip


class Sessions(NamedTuple):
    """What is photographed."""

    playbook: str
    repair: str
    prompt: str
    timed: str


# ---- the sessions


class Desk:
    """A person at the workbench: decides, and the engine's own loop carries it out."""

    def __init__(self, store: Store, tools: Tools, **options: object) -> None:
        self._store, self._tools = store, tools
        self.id = sessions.create(store, problems.load("softmax"), **options)  # type: ignore[arg-type]
        self.state = self._go()

    def decide(self, kind: DecisionKind, **fields: object) -> State:
        self._store.submit(self.id, Decision(kind, self.state.meaning_seq, **fields))  # type: ignore[arg-type]
        self.state = self._go()
        return self.state

    def approve(self, times: int = 1) -> State:
        for _ in range(times):
            assert self.state.gate is not None
            self.decide(DecisionKind.APPROVE, gate=self.state.gate.gate, candidate=self.state.gate.candidate)
        return self.state

    def edit(self, old: str, new: str) -> State:
        """The best kernel with a change by hand, tried."""
        source = self._store.text(self.state.best or "")
        before, found, after = source.rpartition(old)
        assert found, f"{old!r} is not in the kernel any more"
        return self.decide(DecisionKind.EDIT, source=before + new + after, candidate=self.state.best)

    def _go(self) -> State:
        return Session(self._store, self.id, self._tools.bench(self.id)).run()


def playbook_session(store: Store, tools: Tools) -> str:
    """Two kernels of the playbook; by hand, a barrier taken out, then a bound that is right for short rows only."""
    desk = Desk(store, tools, proposer="playbook")
    desk.approve(4)
    desk.edit("partial[threadIdx.x / 32] = value;\n  __syncthreads();\n", "partial[threadIdx.x / 32] = value;\n")
    desk.approve()
    desk.edit("j < cols; j += BLOCK", "j < cols && j < 3 * BLOCK; j += BLOCK")
    return desk.id


def model_sessions(store: Store, tools: Tools) -> tuple[str, str]:
    """One whose repair has a diagnosis and waits at its diff, one whose first prompt waits to be sent."""
    with ModelServer(*(reply(text, size=200) for text in REPLIES)) as model:
        settings = ModelSettings("local", model.base_url, "scripted", context_tokens=200_000)
        model_settings.write(Models((settings,)))
        repair = Desk(store, tools, proposer="llm", model="local", max_tokens=400_000)
        repair.approve(3)
        gates = (Gate.PROMPT, Gate.DIFF, Gate.PROMOTION)
        prompt = Desk(store, tools, proposer="llm", model="local", max_tokens=400_000, gates=gates)
    return repair.id, prompt.id


def make_sessions() -> Sessions:
    store = Store()
    tools = Tools(store)
    try:
        playbook = playbook_session(store, tools)
        return Sessions(playbook, *model_sessions(store, tools), import_path(store, RECORDING).session)
    finally:
        tools.close()
        store.close()


# ---- the pictures


def shots(made: Sessions) -> Mapping[str, str]:
    """Picture -> address."""
    first = f"/session?id={made.playbook}"
    return {
        "start": "/",
        "session": first,
        "session-race": f"{first}&step=4&view=split&pane=correctness",
        "session-resources": f"{first}&step=2&pane=resources",
        "session-diagnosis": f"/session?id={made.repair}&step=1",
        "session-replies": f"/session?id={made.repair}&pane=prompt&view=split",
        "session-prompt": f"/session?id={made.prompt}",
        "compare": f"/compare?a={made.playbook}.1&b={made.playbook}.2",
        "session-timing": f"/session?id={made.timed}&step=9&pane=timing",
        "session-roofline": f"/session?id={made.timed}&step=9&pane=roofline",
        "session-profile": f"/session?id={made.timed}&step=9&pane=profile",
        "layouts": "/layouts",
        "problems": "/problems?name=softmax",
        "setup": "/setup",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "assets" / "screenshots")
    parser.add_argument("--scheme", choices=("dark", "light", "readme"), default="readme", help="readme: what it shows")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with own_workspace():
        made = make_sessions()
        with served():
            shoot(arguments.output, shots(made), arguments.scheme)
    return 0


@contextmanager
def own_workspace() -> Iterator[None]:
    """A workspace that is thrown away, with the caches of the real one."""
    cache = workspace.home() / "cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cutegen-pictures-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "cache").symlink_to(cache.resolve())
        os.environ["CUTEGEN_HOME"] = folder
        yield


def shoot(folder: Path, addresses: Mapping[str, str], scheme: str) -> None:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is in PATH; install one (`apt install chromium`)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for colours in ("dark", "light"):
            context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=colours)
            for name, address in addresses.items():
                readme = scheme == "readme" and (colours == "dark" or name == "session")
                if colours == scheme or readme:
                    shoot_one(context.new_page(), address, folder / f"{name}-{colours}.png")
        browser.close()


def shoot_one(page: Page, address: str, target: Path) -> None:
    page.goto(f"http://127.0.0.1:{PORT}{address}")
    page.wait_for_selector(".cg-heading", timeout=60_000)
    with suppress(TimeoutError):
        page.wait_for_selector(".js-plotly-plot", timeout=PLOT_MS if "session" in address else 1)
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=target)
    page.close()
    size = target.stat().st_size
    print(f"{target.name}: {size // 1000} KB")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{target} is larger than {LARGEST_BYTES // 1000} KB")


@contextmanager
def served() -> Iterator[None]:
    """The application on a port of its own, for as long as the block runs."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={PORT}", "--server.headless=true"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/_stcore/health", timeout=2):
                break
            time.sleep(0.05)
        else:
            raise SystemExit("the server did not start")
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
