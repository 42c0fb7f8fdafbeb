"""The emulator, for the tests of what it computes and finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from tests.execute.emulator.emulated import Harness
from tests.shared_tools import SharedTools


@pytest.fixture(scope="session")
def executor(shared: SharedTools) -> CpuExecutor:
    return shared.executor


@pytest.fixture
def harness(executor: CpuExecutor, tmp_path: Path) -> Harness:
    return Harness(executor, tmp_path)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
