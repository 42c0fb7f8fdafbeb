"""The serving problems: the existing kernel beside each is right on everything that the emulator tries."""

from pathlib import Path

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import catalogue
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.trial import Status
from tests.shared_tools import SharedTools

SERVING = [problem for problem in catalogue() if problem.existing]
ALWAYS = ("silu_and_mul",)


@pytest.mark.parametrize(
    "problem",
    [pytest.param(p, id=p.name, marks=() if p.name in ALWAYS else pytest.mark.thorough) for p in SERVING],
)
def test_the_existing_kernel_passes(problem, shared: SharedTools, tmp_path: Path) -> None:
    evaluator = Evaluator(
        problem, shared.reference(problem, tmp_path), shared.executor, shared.compiler(), choose_device("sm_90a"),
        content_key,
    )  # fmt: skip
    trial = evaluator.evaluate(Candidate(problem.existing, Author.IMPORT), seed=5)
    assert trial.status is Status.PASSED, trial.message
    assert trial.correctness is not None
    runs = " ".join(verdict.workload for verdict in trial.correctness.verdicts)
    assert "nan values" in runs
    assert "infinite values" in runs
