"""What becomes of a reference that cannot give float64 values: memory that ran out is no answer, a reason is told."""

import pytest

from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, Tolerance, Values, Workload, WorkloadRole
from tests.later import Later

torch = Later("torch")
values = Later("cutegen_core.judge.reference_process.values")
judging = Later("cutegen_core.judge.gpu.answers")
sets_module = Later("cutegen_core.judge.gpu.sets")
expected = Later("cutegen_core.judge.reference_process.expected")
references = Later("cutegen_core.judge.reference_process.loading.live")

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.dtype is torch.WHEN:
            FAILS
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 64)]
"""
HUNGRY = "x = torch.empty(1 << 50, dtype=torch.uint8)"
"""A petabyte: no machine has it."""


def source(when, fails):
    return SOURCE.replace("WHEN", when).replace("FAILS", fails)


@pytest.mark.parametrize("when", ["float32", "float64"])
@pytest.mark.parametrize(
    "fails",
    [HUNGRY, "raise MemoryError", "raise torch.OutOfMemoryError('CUDA out of memory')",
     "raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`')"],
    ids=["CPU", "host", "GPU", "cuBLAS"],
)  # fmt: skip
def test_memory_that_ran_out_says_nothing_about_float64(when, fails):
    with pytest.raises((MemoryError, RuntimeError)) as ended:
        expected.expect(references.instantiate(source(when, fails), "here"))
    assert references.out_of_memory(ended.value)
    assert torch.get_default_dtype() is torch.float32


@pytest.fixture
def judged(shared, tmp_path):
    """What the worker says of the reference's own answer, with and without an error in it."""

    def judge(text):
        problem = Problem("p", "p", text, "here", (Workload("small", WorkloadRole.EMULATOR),))
        (workload,) = problem.workloads
        reference = shared.reference(problem, tmp_path)
        live = values.instantiate_drawn(text, "here", Values.GIVEN, 3)
        reference.write_inputs(workload, 3)
        values.write_raw(torch.relu(live.tensors["x"]), tmp_path / "out")
        (output,) = reference.signature(workload).outputs
        return reference.compare(workload, 3, {output: tmp_path / "out"})

    return judge


def test_the_cpus_judge_gives_no_verdict_without_memory(judged):
    with pytest.raises(ProblemError, match="here:7: ran out of the memory a reference may use"):
        judged(source("float64", HUNGRY))


def test_the_cpus_judge_says_that_float64_was_not_possible(judged):
    (found,) = judged(source("float64", "raise TypeError('single precision only')"))
    assert found.wrong == 0
    assert found.no_float64 == "here:7: TypeError: single precision only"
    (found,) = judged(source("float64", "pass"))
    assert found.no_float64 == ""


def sets_of(text, count):
    """Return sets of CPU tensors whose outputs are right."""
    made = [values.instantiate_drawn(text, "here", Values.GIVEN, seed) for seed in range(count)]
    return made[0], [sets_module.BufferSet({}, {"x": m.tensors["x"], "out": torch.relu(m.tensors["x"])}) for m in made]


def test_the_gpus_judge_says_so_too_whichever_set_it_was():
    fails = "assert not (x == 7.0).any(), 'no sevens in double'"
    live, sets = sets_of(source("float64", fails), 3)
    outputs = (judging.JudgedOutput("out", "float32", (64, 64), Tolerance(1e-5, 1e-4)),)
    assert [c.no_float64 for c in judging.Answers(live, sets, outputs).compare_first(0xFF)] == [""]
    sets[1].tensors["x"][5, 5] = sets[1].tensors["out"][5, 5] = 7.0
    (found,) = judging.Answers(live, sets, outputs).compare_first(0xFF)
    assert (found.wrong, found.no_float64) == (0, "here:7: AssertionError: no sevens in double")


def test_the_gpus_judge_gives_no_verdict_without_memory():
    live, sets = sets_of(source("float64", HUNGRY), 2)
    outputs = (judging.JudgedOutput("out", "float32", (64, 64), Tolerance(1e-5, 1e-4)),)
    with pytest.raises(RuntimeError) as ended:
        judging.Answers(live, sets, outputs).compare_first(0xFF)
    assert references.out_of_memory(ended.value)


ATTENTION = """
import torch

class Model(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

def get_inputs():
    q, k = torch.ones(1, 1, 2, 4), -torch.ones(1, 1, 3, 4)
    q[0, 0, 0, 0], k[0, 0, 1, 0] = torch.inf, 0.0
    return [q, k, torch.ones(1, 1, 3, 4)]
"""


def test_attention_is_the_formula_whatever_kernel_a_device_has_for_it():
    """Scores of NaN and -inf: the fused kernel of a CPU takes such a query for one without keys, and answers 0."""
    found = expected.expect(references.instantiate(ATTENTION, "here"))
    for answer in (*found.declared, *found.exact):
        assert answer[0, 0, 0].isnan().all()
        assert answer[0, 0, 1].isfinite().all()


@pytest.mark.parametrize(("terms", "longest"), [(100, 0), (1 << 17, 1 << 17)])
def test_very_long_sums_of_products_may_be_made_in_sequence(terms, longest):
    """Elsewhere the error of such a sum would hide TF32."""
    text = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n        return x @ y\n\n"
        f"def get_inputs():\n    return [torch.rand(1, {terms}), torch.rand({terms}, 1)]\n"
    )
    assert expected.expect(references.instantiate(text, "here")).longest_sum == longest


def test_where_an_output_cancels_to_zero_the_rounding_of_a_product_is_right(shared, tmp_path):
    """`a * 3 - max(a * 3)` of one element, whose product a kernel contracts with the difference."""
    text = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        y = x * 1.1\n"
        "        return y - y.amax(1, keepdim=True)\n\ndef get_inputs():\n    return [torch.randn(8, 1)]\n"
    )
    problem = Problem("p", "p", text, "here", (Workload("small", WorkloadRole.EMULATOR),))
    (workload,) = problem.workloads
    reference = shared.reference(problem, tmp_path)
    x = values.instantiate_drawn(text, "here", Values.GIVEN, 3).tensors["x"]
    reference.write_inputs(workload, 3)
    (out,) = reference.signature(workload).outputs

    def wrong(got):
        values.write_raw(got.float().contiguous(), tmp_path / "out")
        (found,) = reference.compare(workload, 3, {out: tmp_path / "out"})
        return found.wrong

    rounded = (x * 1.1).double()
    assert not wrong(x.double() * torch.tensor(1.1).double() - rounded)
    assert wrong(x.double() * 1e-4)
