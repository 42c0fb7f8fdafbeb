"""Mistakes in right kernels, on the emulator: every edit has one place, no mistake passes, no right kernel is blocked.

The mistakes are ordered by kernel. One case in ONE_IN is tried by default, the others are thorough.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cutegen_core.records.trial import Status
from tests.adversarial.bench import Bench
from tests.adversarial.case import evidence, judged
from tests.adversarial.corpus import RIGHT_AND_MISTAKEN, WHOLE, applying, named
from tests.adversarial.mistakes import EDITS, MISTAKES
from tests.adversarial.right_kernels import RIGHT_KERNELS
from tests.shared_tools import SharedTools

ONE_IN = 160
BUILD_LONG = ("gemm_bf16", "gemm_f16", "gemm_tf32")
"""Tensor-core products of CuTe, a minute of a processor each: `emulator/test_ampere` builds one by default."""
CASES = [
    pytest.param(
        case.name,
        marks=(
            pytest.mark.xdist_group(f"mistakes {number // ONE_IN % 2}"),
            *((pytest.mark.thorough,) if number % ONE_IN or case.name.startswith(BUILD_LONG) else ()),
        ),
    )
    for number, case in enumerate(applying("cpu", RIGHT_AND_MISTAKEN))
]


@pytest.fixture(scope="module")
def bench(shared: SharedTools) -> Iterator[Bench]:
    with Bench("cpu", shared=shared) as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(bench: Bench, name: str) -> None:
    case = named(name)
    trial = bench.evaluate(case)
    wrong = judged(case, trial)
    assert not wrong, f"{case.story}: {trial.status}: {wrong}\n{evidence(trial)}"


def test_every_edit_has_one_place_and_changes_the_kernel() -> None:
    assert [m.case().name for m in MISTAKES if m.kernel.source.count(m.old) != 1 or m.old == m.new] == []


def test_every_mistake_has_a_story_and_a_verdict_and_every_file_a_kernel() -> None:
    assert all(m.edit and m.story and m.statuses and Status.PASSED not in m.statuses for m in MISTAKES)
    assert {file.stem for file in EDITS.iterdir()} <= set(RIGHT_KERNELS)


def test_there_are_enough_of_every_kind() -> None:
    hostile = [case for case in applying("cpu") if case.hostile]
    assert len(MISTAKES) >= 230
    assert len(hostile) >= 400
    assert len(applying("cpu")) - len(hostile) >= 60


def test_mistakes_differ_from_one_another_and_are_made_in_most_right_kernels() -> None:
    assert len({case.name for case in WHOLE}) == len(WHOLE)
    assert len({mistake.source for mistake in MISTAKES}) == len(MISTAKES)
    made_in = {mistake.kernel.name for mistake in MISTAKES}
    assert len(made_in) >= len(RIGHT_KERNELS) * 0.9, sorted(set(RIGHT_KERNELS) - made_in)
