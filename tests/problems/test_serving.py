"""The serving problems: the existing kernel beside each is right on everything that the emulator tries."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import catalogue
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import Values
from cutegen_core.records.trial import Status
from tests.few_runs import few_runs
from tests.shared_tools import SharedTools

SERVING = [problem for problem in catalogue() if problem.existing]
BRIEFLY = few_runs("silu_and_mul")
"""Each kind of values at one small size: 18 of 40 runs."""


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(BRIEFLY, id=f"{BRIEFLY.name}, briefly"),
        *(pytest.param(p, id=p.name, marks=pytest.mark.thorough) for p in SERVING),
    ],
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


MERGE = next(p for p in SERVING if p.name == "merge_attn_states_lse")
ROUGH = ("a > b || a != a ? a : b", "largest == -INFINITY ? 0.0f : largest")


@pytest.mark.parametrize(
    ("exact", "kind"),
    [pytest.param(e, k, marks=() if (e, k) == (ROUGH[0], "half_t") else pytest.mark.thorough)
     for e in ROUGH for k in ("half_t", "tfloat32_t")],
)  # fmt: skip
def test_other_values_reach_an_input_with_infinities(exact, kind, shared: SharedTools, tmp_path: Path) -> None:
    """The problem's own workloads with such values are taken away: what TEST adds must find it."""
    given = tuple(w for w in MERGE.workloads if w.values is Values.GIVEN)
    problem = replace(MERGE, workloads=given)
    source = problem.existing.replace(exact, f"float(cute::{kind}({exact}))")
    source = source.replace("#include <cuda_fp16.h>", "#include <cuda_fp16.h>\n#include <cute/tensor.hpp>")
    assert source.count(kind) == 1
    evaluator = Evaluator(
        problem, shared.reference(problem, tmp_path), shared.executor, shared.compiler(), choose_device("sm_90a"),
        content_key,
    )  # fmt: skip
    trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=5)
    assert trial.status is Status.INCORRECT_NUMERICAL, trial.message
    assert " values" in trial.message
