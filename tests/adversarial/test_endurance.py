"""Fifty hostile trials in a row leave nothing behind (five hundred: `python -m benchmarks.hostile_trials`)."""

from __future__ import annotations

from tests.adversarial.endurance import endure, faults


def test_fifty_hostile_trials_leave_nothing_behind() -> None:
    endured = endure(rounds=5)
    assert endured.trials == 50
    assert not faults(endured, allowed_growth_mb=25.0), endured
