"""An installed wheel serves the application from any folder, with the pages, settings and engine of the wheel."""

import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.crowd import descendants
from tests.patience import wait_until
from tests.serving import free_port
from tests.wheels import built

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and all other packages of this one by way of its path."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [
        *(sys.executable, "-m", "pip", "--python", python),
        *("install", "--no-deps", "--no-index", "--no-compile", "--quiet", built(folder)),
    ]
    subprocess.run(install, check=True)
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", purelib], capture_output=True, text=True, check=True).stdout.strip()
    Path(site, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files do not count
    return folder / "venv"


@pytest.mark.thorough
def test_a_page_is_drawn_from_a_foreign_folder(installed: Path, home: Path, tmp_path: Path, page: Page) -> None:
    workspace, port = tmp_path / "workspace", free_port()
    workspace.mkdir()
    (workspace / "cache").symlink_to((home / "cache").resolve())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(
        [installed / "bin" / "cutegen", "app", "--no-browser", "--port", str(port)],
        cwd=tmp_path, env=environment | {"CUTEGEN_HOME": str(workspace)}, start_new_session=True,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/_stcore/health")
        page.emulate_media(color_scheme="light")
        page.goto(url)
        expect(page.get_by_role("link", name="Setup").first).to_be_visible()
        button = page.get_by_role("button", name="Start", exact=True).first
        expect(button).to_be_visible()
        expect(button).to_have_css("background-color", "rgb(15, 108, 189)")  # as .streamlit says
        assert str(installed) in package_of_the_engine(workspace)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        end_the_engine(workspace)


def end_the_engine(workspace: Path) -> None:
    """End it with what it compiles: the emulator of this package, ten seconds of a core, is for nobody.

    All are stopped before the first is killed: whoever loses a child would start another.
    """
    with suppress(OSError, ValueError):
        engine = int((workspace / "engine.lock").read_text())
        stopped, found = set[int](), {engine}
        while fresh := found - stopped:
            send(fresh, signal.SIGSTOP)
            stopped |= fresh
            found = descendants(engine)
        send(stopped, signal.SIGKILL)


def send(processes: set[int], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for(url: str) -> None:
    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return True
        return False

    wait_until(answers, f"nothing answers at {url}")


def package_of_the_engine(workspace: Path) -> str:
    """Return where the running engine's interpreter, with its environment, finds the core."""
    lock = workspace / "engine.lock"
    wait_until(lambda: lock.exists() and lock.read_text(), "no engine has started")
    pid = lock.read_text()
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    environment = dict(each.split("=", 1) for each in variables if "=" in each)
    python = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    found = [python, "-c", "import cutegen_core; print(cutegen_core.__file__)"]
    return subprocess.run(found, env=environment, cwd="/", capture_output=True, text=True, check=True).stdout
