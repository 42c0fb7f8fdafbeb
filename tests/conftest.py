"""A workspace for the test run, nothing of the user's is touched; processes of one run share what is built once.

With `-n 2` each worker of pytest-xdist has a workspace of its own below the run's, and the run's cache by a link.
"""

import os
import tempfile
from pathlib import Path

import pytest

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_OWN = tempfile.TemporaryDirectory(prefix="cutegen-tests-") if "CUTEGEN_HOME" not in os.environ else None
if _OWN is not None:
    os.environ["CUTEGEN_HOME"] = _OWN.name
if _WORKER:
    _run = Path(os.environ["CUTEGEN_HOME"])
    _home = _run / _WORKER
    _home.mkdir(parents=True, exist_ok=True)
    (_run / "cache").mkdir(exist_ok=True)
    if not (_home / "cache").exists():
        (_home / "cache").symlink_to(_run / "cache")
    os.environ["CUTEGEN_HOME"] = str(_home)


@pytest.fixture(scope="session")
def workspace_home() -> Path:
    """The workspace every process of this worker uses."""
    return Path(os.environ["CUTEGEN_HOME"])


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has all that drives a browser: two would wait for each other. Else a file stays together."""
    for item in items:
        folder = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group("browser" if folder == "browser" else str(item.path)))
