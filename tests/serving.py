"""The served application on a workspace of its own, and a Chromium to look at it: for tests, pictures, benchmarks."""

from __future__ import annotations

import atexit
import fcntl
import json
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO, ClassVar

from playwright.sync_api import Browser, sync_playwright

from cutegen_core.machine import workspace
from cutegen_core.machine.forking import Forked, ForkServerClient
from tests.places import ROOT

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first that is there is taken. The shell is Chromium without its window: a page costs 7 % less."""
START_S = 120
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


class NotServedError(RuntimeError):
    """The server or its engine did not come up, or there is no browser; the text says what to do."""


class ForkedServer:
    """A server that is a fork, with what `subprocess.Popen` has of it."""

    def __init__(self, forked: Forked) -> None:
        self.pid, self.poll, self.wait = forked.pid, forked.poll, forked.wait

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _forks() -> ForkServerClient:
    made = ForkServerClient()
    atexit.register(made.close)
    return made


@dataclass
class Server:
    """`streamlit run app.py` on a workspace and a port of its own; what it prints goes to `server.log` there."""

    home: Path
    port: int = 0
    process: subprocess.Popen[bytes] | ForkedServer | None = None
    environment: dict[str, str] = field(default_factory=dict)
    forks: ClassVar[bool] = False
    """Tells whether servers are forks of a process that has imported Streamlit (`forked_server`): 0.4 instead of 3.1 s
    of a core until the first page."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.port = self.port or free_port()
        with (self.home / "server.log").open("ab") as log:
            self.process = self._process(["run", "app.py", f"--server.port={self.port}", "--server.headless=true"], log)
        deadline = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                return
            time.sleep(0.01)
        raise NotServedError(f"the server did not start:\n{(self.home / 'server.log').read_text()[-3000:]}")

    def _process(self, arguments: list[str], log: BinaryIO) -> subprocess.Popen[bytes] | ForkedServer:
        """Start Streamlit; not as a fork where Python itself reads something as it begins, or coverage is measured."""
        environment = os.environ | {"CUTEGEN_HOME": str(self.home)} | self.environment
        if not self.forks or "PYTHONPATH" in self.environment or "COVERAGE_PROCESS_CONFIG" in environment:
            command = [sys.executable, "-m", "streamlit", *arguments]
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)
        module = "tests.forked_server"
        given = [json.dumps(dict(environment)), *arguments]
        return ForkedServer(_forks().start(module, given, {}, log=log.fileno(), fds=[], imports=[module]))

    def kill(self) -> None:
        """Kill it as the machine would: no warning, nothing cleaned up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def engine_pid(self) -> int:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with suppress(OSError, ValueError):
                return int((self.home / "engine.lock").read_text())
            time.sleep(0.1)
        raise NotServedError("no engine has started")

    def kill_engine(self) -> int:
        pid = self.engine_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def end(self) -> None:
        """End the server, and the engine if one runs."""
        self.kill()
        with suppress(OSError, ValueError):
            os.kill(int((self.home / "engine.lock").read_text()), signal.SIGKILL)


@contextmanager
def served(home: Path, port: int = 0, **environment: str) -> Iterator[Server]:
    server = Server(home, port, environment=environment)
    try:
        server.start()
        yield server
    finally:
        server.end()


@contextmanager
def no_engine(home: Path) -> Iterator[None]:
    """Hold the engine's lock, so that the server starts none: an engine costs as much as the rest of a test."""
    with (home / "engine.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def own_workspace() -> Iterator[Path]:
    """Yield a workspace that is thrown away, with the caches of the real one, and this process's own meanwhile."""
    cache = workspace.home() / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("CUTEGEN_HOME")
    with tempfile.TemporaryDirectory(prefix="cutegen-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "cache").symlink_to(cache.resolve())
        os.environ["CUTEGEN_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            os.environ.pop("CUTEGEN_HOME")
            if before is not None:
                os.environ["CUTEGEN_HOME"] = before


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Headless, with further arguments for it.

    Raises:
        NotServedError: there is none on this machine.
    """
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise NotServedError(
            f"no browser: none of {', '.join(BROWSERS)} is in PATH; install one (`apt install chromium-headless-shell`)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_ARGUMENTS, *arguments])
        yield browser
        browser.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
