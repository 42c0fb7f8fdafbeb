"""A let among a kernel's template arguments: each of its values is a kernel of its own, compiled, run and bounded."""

from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.kernel.kernel_file import MAX_INSTANCES, parse
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec, Workload, WorkloadRole
from cutegen_core.records.trial import Status
from cutegen_core.share.exports import bundle
from tests.later import Later
from tests.session.real_sessions import loop

source = Later("cutegen_core.operators.source")

KERNEL = """/* cutegen
[let]
rows = "x.shape[0]"
COLS = "x.shape[1]"
[params]
BLOCK = 64
[[launch]]
kernel = "relu_row<BLOCK, COLS>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out"]
when = "COLS == 96 or COLS == 128"
[[launch]]
kernel = "relu_any<BLOCK>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out", "COLS"]
when = "COLS != 96 and COLS != 128"
*/
#include <cute/tensor.hpp>
using namespace cute;
template <int BLOCK, int COLS>
__global__ void relu_row(float const* x, float* out) {
  Tensor in = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * COLS), make_layout(Int<COLS>{}));
  CUTE_UNROLL
  for (int i = 0; i < (COLS + BLOCK - 1) / BLOCK; ++i) {
    int const j = i * BLOCK + threadIdx.x;
    if (j < COLS) out[long(blockIdx.x) * COLS + j] = in(j) < 0.0f ? 0.0f : in(j);
  }
}
template <int BLOCK>
__global__ void relu_any(float const* x, float* out, int cols) {
  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const value = x[long(blockIdx.x) * cols + j];
    out[long(blockIdx.x) * cols + j] = value < 0.0f ? 0.0f : value;
  }
}
"""
WITHOUT_WHEN = KERNEL.replace('when = "COLS == 96 or COLS == 128"\n', "").replace(
    KERNEL[KERNEL.index('[[launch]]\nkernel = "relu_any') : KERNEL.index("*/")], ""
)


def sizes(*columns):
    return tuple(Workload(f"by {n}", WorkloadRole.EMULATOR, {"batch_size": 3, "dim": n}) for n in columns)


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    """relu at two sizes that the kernel has instances for, and one that it has not; its own benchmark is left out."""
    problem = replace(library.load("relu"), workloads=sizes(96, 128, 37))
    with loop(tmp_path_factory.mktemp("instances")) as desk:
        session = desk.start(problem)
        yield desk.tools.evaluator(session, views.session_view(desk.store, session).state.settings)


def tried(evaluator, text):
    return evaluator.evaluate(Candidate(text, Author.PERSON), seed=3)


def test_each_value_is_compiled_and_run_and_other_sizes_take_the_other_launch(evaluator):
    trial = tried(evaluator, KERNEL)
    assert trial.status is Status.PASSED, trial.message
    assert [kernel.kernel for kernel in trial.resources.kernels] == [
        "relu_any<BLOCK>", "relu_row<BLOCK, 96>", "relu_row<BLOCK, 128>",
    ]  # fmt: skip
    launched = {row.workload: row.kernel for row in trial.resources.occupancy}
    assert launched == {
        "by 96": "relu_row<BLOCK, 96>", "by 128": "relu_row<BLOCK, 128>", "by 37": "relu_any<BLOCK>",
    }  # fmt: skip


def test_an_instance_that_is_wrong_is_caught_at_its_size(evaluator):
    trial = tried(evaluator, KERNEL.replace("if (j < COLS) out", "if (j < (COLS == 128 ? 127 : COLS)) out"))
    assert trial.status is Status.INCORRECT_NUMERICAL
    assert "by 128" in trial.message


# ---- the plan, without a compiler

DEVICE = choose_device("sm_90a")


def plan(kernel, columns):
    x, out = TensorSpec("x", "float32", (3, columns)), TensorSpec("out", "float32", (3, columns), TensorRole.OUTPUT)
    return kernel.plan(Signature((x,), (out,)), DEVICE)


def test_a_size_without_an_instance_says_what_to_do():
    kernel = parse(WITHOUT_WHEN)
    assert kernel.size_names() == ("COLS",)
    limited = kernel.with_instances([plan(kernel, n) for n in (64, 96)])
    assert limited.kernel_names() == ("relu_row<BLOCK, 64>", "relu_row<BLOCK, 96>")
    assert plan(limited, 96).launches[0].kernel == "relu_row<BLOCK, 96>"
    with pytest.raises(
        KernelFileError, match=r"line 7: relu_row: no instance was compiled for COLS = 97: give .*'when'"
    ):
        plan(limited, 97)


def test_instances_are_bounded_in_number():
    kernel = parse(WITHOUT_WHEN)
    most = [plan(kernel, 32 + n) for n in range(MAX_INSTANCES)]
    assert len(kernel.with_instances([*most, *most]).kernel_names()) == MAX_INSTANCES
    with pytest.raises(
        KernelFileError, match=f"line 7: COLS .* make {MAX_INSTANCES + 1} instances .* limit it by 'when'"
    ):
        kernel.with_instances([*most, plan(kernel, 999)])


def test_a_template_argument_is_a_whole_number():
    kernel = parse(WITHOUT_WHEN.replace('COLS = "x.shape[1]"', 'COLS = "x.shape[1] * 0.5"'))
    with pytest.raises(KernelFileError, match=r"must be a whole number; COLS is 48\.0"):
        plan(kernel, 96)


def test_a_file_without_lets_in_templates_is_as_it_was():
    kernel = parse(KERNEL.replace("relu_row<BLOCK, COLS>", "relu_row<BLOCK, 96>"))
    assert kernel.size_names() == ()
    assert kernel.with_instances([plan(kernel, 96)]) is kernel
    assert kernel.kernel_names() == ("relu_row<BLOCK, 96>", "relu_any<BLOCK>")


def test_exports_and_operators_say_that_they_cannot():
    problem = library.load("relu")
    with pytest.raises(UsageError, match="COLS among its template arguments"):
        bundle.build(problem, KERNEL, "sm_90a", "k", "here")
    with pytest.raises(UsageError, match="COLS among its template arguments"):
        source.compiled(problem, KERNEL, "sm_90a")
