"""One workspace for the whole test run: prepared headers and builds are shared, nothing of the user's is touched."""

import os
import tempfile
from pathlib import Path

import pytest

_OWN = tempfile.TemporaryDirectory(prefix="cutegen-tests-") if "CUTEGEN_HOME" not in os.environ else None
if _OWN is not None:
    os.environ["CUTEGEN_HOME"] = _OWN.name


@pytest.fixture(scope="session")
def workspace_home() -> Path:
    """The workspace every process of this test run uses."""
    return Path(os.environ["CUTEGEN_HOME"])
