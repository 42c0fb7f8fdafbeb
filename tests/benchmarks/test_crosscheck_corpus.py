"""The corpus of the cross-check is sound: every kernel reads and plans, right ones are right, wrong ones are caught."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.crosscheck import closeness, corpus
from benchmarks.crosscheck.closeness import difference
from benchmarks.crosscheck.corpus import Case
from benchmarks.crosscheck.emulate import emulate
from benchmarks.crosscheck.folder import DEVICE, Folder, verdict
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.screening import screen
from cutegen_core.records.problem import TensorRole, TensorSpec
from cutegen_core.records.trial import Status
from tests.shared_tools import SharedTools

WRITTEN = [case for case in corpus.cases() if case.source]


def test_the_corpus_is_as_large_as_promised():
    cases = corpus.cases()
    assert len({case.name for case in cases}) == len(cases) >= 120
    assert sum(bool(case.defect) for case in cases) >= 15


def test_no_wrong_kernel_is_left_out():
    listed = {case.name for case in WRITTEN if case.defect}
    assert {f"wrong/{path.stem}" for path in (corpus.KERNELS / "wrong").glob("*.cu")} == listed


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_every_written_kernel_plans_for_its_workloads(step: int, shared: SharedTools):
    references: dict[str, Reference] = {}
    for case in WRITTEN[::step]:
        if case.problem not in references:
            references[case.problem] = shared.reference(corpus.problem_of(case))
        reference = references[case.problem]
        kernel = parse(case.source)
        assert not screen(kernel), case.name
        assert set(kernel.numerics.allow) <= set(reference.problem.allow), case.name
        workloads = corpus.workloads_of(reference.problem)
        assert workloads, case.name
        for workload in workloads:
            assert kernel.plan(reference.signature(workload), DEVICE, kernel.defaults(), workload.name).launches


def _named(*names: str) -> list[Case]:
    return [case for case in WRITTEN if case.name in names]


@pytest.mark.thorough
def test_a_right_and_a_wrong_one_on_the_emulator(tmp_path: Path):
    lines: list[str] = []
    folder = Folder(tmp_path)
    emulate(_named("rank_of_positives", "wrong/missing_barrier"), folder, lines.append)
    right, wrong = folder.load("rank_of_positives"), folder.load("wrong/missing_barrier")
    assert right and wrong  # noqa: PT018
    assert verdict(right).status is Status.PASSED, verdict(right).message
    assert len(folder.get(right.cubin)) > 1000
    assert verdict(wrong).status is Status.MEMORY_ERROR
    assert verdict(wrong).kind in ("race", "uninitialised"), "which of the two comes first is the thread order's"
    done = len(lines)
    emulate(_named("rank_of_positives"), folder, lines.append)
    assert len(lines) == done, "what was done already is done again"


SPEC = TensorSpec("out", "float32", (4,), TensorRole.OUTPUT)


def _difference(left: list[float], right: list[float], allowed: closeness.Closeness) -> closeness.Difference:
    return difference(np.float32(left).tobytes(), np.float32(right).tobytes(), SPEC, allowed)


def test_differences_are_counted_in_units_of_the_last_place():
    found = _difference([1.0, 2.0, float("nan"), 0.0], [1.0000001, 2.0, float("nan"), 0.0], closeness.ROUNDING)
    assert (found.differing, found.beyond, found.total) == (1, 0, 4)
    assert found.max_ulp == pytest.approx(1.0)
    assert _difference([1.0, 2, 3, 4], [1.0000001, 2, 3, 4], closeness.EXACT).beyond == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.1])
def test_what_is_not_close_is_beyond_the_tolerance(value: float):
    assert _difference([value, 2, 3, 4], [1, 2, 3, 4], closeness.SUMS).beyond == 1


def test_bfloat16_is_compared_in_its_own_units():
    spec = TensorSpec("out", "bfloat16", (1,), TensorRole.OUTPUT)
    one, next_one = np.uint16([0x3F80]).tobytes(), np.uint16([0x3F81]).tobytes()
    found = difference(one, next_one, spec, closeness.SMALL_FLOAT)
    assert (found.max_ulp, found.beyond) == (1.0, 0)
