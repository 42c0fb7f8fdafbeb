"""A study on the emulator: what the judge catches, what the oracle proves different, what does not count."""

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.mutation.edit import MutantKind as Kind
from cutegen_core.evaluate.mutation.mutants import find_mutants
from cutegen_core.evaluate.mutation.oracle import Oracle, widen
from cutegen_core.evaluate.mutation.study import MutantOutcome, study
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from tests.places import DATA

RELU = (DATA / "relu.cu").read_text()
# A judge that knows one size and, without float64, one kind of values: the oracle must see more than it does.
NARROW = Problem(
    "narrow", "narrow",
    "import torch\nsize = 5000\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    "        if x.dtype == torch.float64: raise TypeError('single precision only')\n"
    "        return torch.relu(x)\n\ndef get_inputs():\n    return [torch.rand(size)]\n",
    "here", (Workload("small", WorkloadRole.EMULATOR, {"size": 100}), Workload("own", WorkloadRole.BENCHMARK)),
)  # fmt: skip


@pytest.fixture(scope="module")
def studied(shared):
    """The outcome of each change, by what stands there afterwards."""
    evaluator = Evaluator(
        NARROW,
        shared.reference(NARROW),
        shared.executor,
        shared.compiler(),
        choose_device("sm_90a"),
        content_key,
    )
    oracle = Oracle(evaluator, shared.reference(widen(NARROW)), RELU, seed=2)
    chosen = [
        m for m in find_mutants(RELU)
        if (m.kind, m.before, m.after) in {
            (Kind.COMPARISON, "<", "<="), (Kind.COMPARISON, ">", ">="), (Kind.CONDITION, "", "|| true"),
        }
    ]  # fmt: skip
    table = study(evaluator, oracle.find_difference, RELU, chosen, 1, SilentWatch())
    return evaluator, table


def test_what_the_judge_sees_is_caught(studied):
    row = next(row for row in studied[1].rows if row.after == "<=")
    assert (row.outcome, row.status, row.workload) == (MutantOutcome.CAUGHT, "MEMORY_ERROR", "small (checked)")


def test_what_only_other_values_show_has_survived(studied):
    """The judge's inputs are all positive, so that the identity passes."""
    row = next(row for row in studied[1].rows if row.after == "|| true")
    assert (row.outcome, row.status) == (MutantOutcome.SURVIVED, "PASSED")
    assert "INCORRECT_NUMERICAL" in row.proof


def test_what_computes_the_same_does_not_count(studied):
    row = next(row for row in studied[1].rows if row.after == ">=")
    assert (row.outcome, row.proof) == (MutantOutcome.NOT_PROVED, "")


def test_the_score_is_the_share_of_the_different_ones(studied):
    table = studied[1]
    caught, survived = table.count(MutantOutcome.CAUGHT), table.count(MutantOutcome.SURVIVED)
    assert survived >= 1
    assert table.score == caught / (caught + survived)


def test_the_oracle_takes_sizes_whose_threads_the_emulator_affords(shared):
    """Top-k has 65,536 tokens of 128 threads that wait for one another: half a minute a run."""
    problem = library.load("topk_softmax")
    device = choose_device("sm_90a")
    evaluator = Evaluator(
        problem, shared.reference(problem), shared.executor, shared.compiler(), device, content_key
    )  # fmt: skip
    oracle = Oracle(evaluator, shared.reference(widen(problem)), problem.existing, seed=2)
    sizes = {workload.name: workload.sizes["tokens"] for workload in oracle._workloads}
    assert sizes["few, tokens = 16384"] == max(sizes.values()) == 16384


def test_an_original_that_fails_says_so(studied):
    broken = RELU.replace("if (i < n) ", "")
    with pytest.raises(UsageError, match="the original does not pass"):
        study(studied[0], lambda _: None, broken, find_mutants(broken)[:1], 1, SilentWatch())
