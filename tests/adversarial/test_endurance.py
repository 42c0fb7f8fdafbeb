"""Hostile trials in a row leave nothing behind (five hundred: `python -m benchmarks.judge.hostile_trials`)."""

from __future__ import annotations

import pytest

from tests.adversarial.endurance import KERNELS, endure, faults
from tests.shared_tools import SharedTools


@pytest.mark.parametrize(
    ("names", "rounds", "allowed_growth_mb"),
    [(KERNELS[::3], 1, 10.0), pytest.param(KERNELS, 5, 25.0, marks=pytest.mark.thorough)],
    ids=["some", "all"],
)
def test_hostile_trials_leave_nothing_behind(
    shared: SharedTools, names: tuple[str, ...], rounds: int, allowed_growth_mb: float
) -> None:
    endured = endure(rounds, shared, names)
    assert endured.trials == rounds * len(names)
    assert not faults(endured, allowed_growth_mb), endured
