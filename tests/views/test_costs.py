"""What two candidates cost, side by side, also where they have different kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.store import Store
from tests.pages.stories import passed


@pytest.fixture
def one(tmp_path: Path) -> Trial:
    return passed(Store(tmp_path / "store.db"), "a" * 64, registers=24)


def renamed(trial: Trial, *names: str, registers: int = 0) -> Trial:
    """Return the trial with a kernel of each name, the first with so many registers more."""
    assert trial.resources
    (kernel,) = trial.resources.kernels
    kernels = [replace(kernel, kernel=name) for name in names]
    kernels[0] = replace(kernels[0], registers=kernel.registers + registers)
    occupancy = tuple(replace(row, kernel=name) for name in names for row in trial.resources.occupancy)
    occupancy = (replace(occupancy[0], occupancy=0.25), *occupancy[1:])
    return replace(trial, resources=replace(trial.resources, kernels=tuple(kernels), occupancy=occupancy))


def rows(left: Trial, right: Trial) -> dict[str, tuple[float | None, float | None]]:
    return {row.name: (row.left, row.right) for row in views.compare(left, right) if "SASS" not in row.name}


def test_one_kernel_each_is_compared_whatever_their_names(one: Trial) -> None:
    found = rows(one, renamed(one, "softmax<1024>", registers=8))
    assert found["registers"] == (24, 32)
    assert found["occupancy, one"] == (100, 25)
    assert not any(None in pair for pair in found.values())


def test_of_different_kernels_the_most_of_all_comes_first_and_every_ones_own_follows(one: Trial) -> None:
    found = rows(one, renamed(one, "short", "long", registers=8))
    compared = [name for name, pair in found.items() if None not in pair]
    assert compared[0] == "registers, at most"
    assert found["registers, at most"] == (24, 32)
    assert found["occupancy, one, at least"] == (100, 25)
    assert found["softmax<BLOCK> registers"] == (24, None)
    assert found["long registers"] == (None, 24)


def test_the_same_kernels_are_compared_by_name(one: Trial) -> None:
    found = rows(renamed(one, "short", "long"), renamed(one, "short", "long", registers=8))
    assert found["short registers"] == (24, 32)
    assert not any("at most" in name for name in found)


def test_the_least_occupancy_of_the_launches_of_a_workload_is_compared(one: Trial) -> None:
    assert one.resources
    first, *rest = one.resources.occupancy
    rest = [replace(first, occupancy=0.25), first, *rest]
    twice = replace(one, resources=replace(one.resources, occupancy=(first, *rest)))
    assert rows(one, twice)["occupancy, one"] == (100, 25)
