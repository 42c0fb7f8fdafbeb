"""Launches marked once: they see parameters alone, calls cannot change what they made, a share of them is counted."""

from dataclasses import replace

import numpy as np
import pytest

from cutegen_core import views
from cutegen_core.evaluate.evidence import speed
from cutegen_core.evaluate.timing.series import Column, RoundSamples
from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload, cost
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Execution
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import ONCE_CALLS
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec, Workload, WorkloadRole
from cutegen_core.records.trial import Status
from tests.pages.gpu_stories import measured
from tests.session.real_sessions import loop

SCALED = '''
import torch
from torch import nn

class Model(nn.Module):
    """Rows times the exponential of a parameter."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))

    def forward(self, x):
        return x * torch.exp(self.weight)

batch_size = 64
dim = 256

def get_inputs():
    return [torch.randn(batch_size, dim)]

def get_init_inputs():
    return [dim]
'''
KERNEL = """/* cutegen
[let]
dim = "weight.shape[0]"
n = "x.numel"
[[scratch]]
name = "factor"
dtype = "float32"
shape = ["dim"]
[[launch]]
kernel = "fold"
once = true
grid = ["ceil_div(dim, 64)"]
block = [64]
args = ["weight", "factor", "dim"]
[[launch]]
kernel = "scale"
grid = ["ceil_div(n, 64)"]
block = [64]
args = ["x", "factor", "out", "n", "dim"]
*/
__global__ void fold(float const* weight, float* factor, int dim) {
  int const i = blockIdx.x * 64 + threadIdx.x;
  if (i < dim) factor[i] = expf(weight[i]);
}
__global__ void scale(float const* x, float const* factor, float* out, long n, int dim) {
  long const i = long(blockIdx.x) * 64 + threadIdx.x;
  if (i < n) out[i] = x[i] * factor[i % dim];
}
"""


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    sizes = ((3, 37), (5, 64))
    small = tuple(Workload(f"by {d}", WorkloadRole.EMULATOR, {"batch_size": b, "dim": d}) for b, d in sizes)
    with loop(tmp_path_factory.mktemp("once")) as desk:
        session = desk.start(Problem("scaled", "scaled", SCALED, "scaled.py", small))
        yield desk.tools.evaluator(session, views.session_view(desk.store, session).state.settings)


def changed(*pairs):
    text = KERNEL
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def tried(evaluator, text):
    return evaluator.evaluate(Candidate(text, Author.PERSON), seed=5)


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.thorough)])
def test_an_honest_kernel_passes_whatever_activations_and_parameters_are_drawn(evaluator, seed):
    trial = evaluator.evaluate(Candidate(KERNEL, Author.PERSON), seed=seed)
    assert trial.status is Status.PASSED, trial.message


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        pytest.param("expf(weight[i])", "1.0f", Status.INCORRECT_NUMERICAL, marks=pytest.mark.thorough),
        ("expf(weight[i])", "expf(weight[i + 1])", Status.MEMORY_ERROR),
        (
            "if (i < n) out[i]", "if (i < dim) const_cast<float*>(factor)[i] = 1.0f;\n  if (i < n) out[i]",
            Status.INPUT_MODIFIED,
        ),
    ],
    ids=["made of no parameter", "beside the parameter", "changed by a call"],
)  # fmt: skip
def test_what_it_makes_is_of_parameters_and_stays(evaluator, old, new, status):
    trial = tried(evaluator, changed((old, new)))
    assert trial.status is status, trial.message


def test_activations_are_not_even_in_its_process(evaluator):
    """A variable of the module that a call fills is gone when the next call's process begins."""
    smuggled = changed(
        ("__global__ void fold", "__device__ float kept;\n__global__ void fold"),
        ("expf(weight[i])", "kept != 0.0f ? kept : expf(weight[i])"),
        ("if (i < n) out[i]", "if (i == 0) kept = x[0];\n  if (i < n) out[i]"),
    )
    trial = tried(evaluator, smuggled)
    assert trial.status is Status.MEMORY_ERROR, trial.message
    assert "kept" in trial.message


def test_other_activations_need_no_new_run_and_other_parameters_do(tmp_path):
    """The two parts as plans of their own: what the first made serves two calls, and is stale for other parameters."""
    kernel, rng = parse(KERNEL), np.random.default_rng(3)
    compiler, executor = Compiler("sm_90a"), CpuExecutor()
    built = executor.build(kernel, {}, lambda: compiler.compile(kernel), checked=True)
    compiler.close()
    whole, specs = plan(KERNEL), {spec.name: spec for spec in SPECS}
    specs["factor"] = TensorSpec("factor", "float32", (37,), TensorRole.BUFFER)
    files = {name: tmp_path / name for name in specs}

    def run(part, given, made, **arrays):
        for name, array in arrays.items():
            files[name].write_bytes(array.astype(np.float32).tobytes())
        files[made].write_bytes(bytes(specs[made].nbytes))
        with executor.open(built) as execute:
            inputs = {specs[name]: files[name] for name in given}
            ran = execute(Execution(built, whole.part(once=part), inputs, {specs[made]: files[made]}))
        assert ran.status is Status.PASSED, ran.message
        return np.frombuffer(files[made].read_bytes(), np.float32).reshape(specs[made].shape)

    weight, other = rng.standard_normal((2, 37))
    run(True, ["weight"], "factor", weight=weight)
    for x in rng.standard_normal((2, 3, 37)):
        np.testing.assert_allclose(run(False, ["x", "weight", "factor"], "out", x=x), x * np.exp(weight), rtol=1e-5)
    stale = run(False, ["x", "weight", "factor"], "out", x=x, weight=other)
    assert not np.allclose(stale, x * np.exp(other), rtol=1e-2)
    run(True, ["weight"], "factor")
    np.testing.assert_allclose(run(False, ["x", "weight", "factor"], "out"), x * np.exp(other), rtol=1e-5)


# ---- the plan

WEIGHT = TensorSpec("weight", "float32", (37,), TensorRole.PARAMETER)
SPECS = (
    TensorSpec("x", "float32", (3, 37)), WEIGHT, TensorSpec("out", "float32", (3, 37), TensorRole.OUTPUT),
)  # fmt: skip


def plan(text):
    return parse(text).plan(Signature(SPECS[:2], SPECS[2:]), choose_device("sm_90a"))


def test_the_plan_is_cut_in_two():
    whole = plan(KERNEL)
    once, rest = whole.part(once=True), whole.part(once=False)
    assert [[launch.kernel for launch in part.launches] for part in (once, rest)] == [["fold"], ["scale"]]
    assert whole.scratch[0].kept
    assert once.scratch == rest.scratch == ()


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([('args = ["weight", "factor", "dim"]', 'args = ["weight", "factor", "x"]')], "line 14: fold .* uses 'x'"),
        ([('args = ["weight", "factor", "dim"]', 'args = ["out", "factor", "dim"]')], "line 14: fold .* uses 'out'"),
        ([('grid = ["ceil_div(dim, 64)"]', 'grid = ["ceil_div(n, 64)"]')], "line 12: fold .* uses 'n'"),
        ([('shape = ["dim"]', 'shape = ["n"]')], "scratch factor: .* its shape depends on 'n'"),
        ([('shape = ["dim"]', 'shape = ["dim"]\ninit = "zero"')], "scratch factor: .* leave out init"),
        ([("once = true", "once = 1")], "once must be true or false"),
        ([('kernel = "scale"', 'kernel = "scale"\nonce = true')], "every launch is marked once"),
        (
            [("once = true\n", ""), ('kernel = "scale"', 'kernel = "scale"\nonce = true')],
            "scale is marked once: it runs before",
        ),
    ],
)
def test_what_could_see_an_activation_is_refused_with_its_line(pairs, words):
    with pytest.raises(KernelFileError, match=words):
        plan(changed(*pairs))


# ---- what it costs


def test_a_hundredth_is_counted_in_the_estimate():
    def cost_of(text):
        weight = TensorSpec("weight", "float32", (1 << 20,), TensorRole.PARAMETER)
        x, out = TensorSpec("x", "float32", (1, 1)), TensorSpec("out", "float32", (1, 1), TensorRole.OUTPUT)
        signature = Signature((x, weight), (out,))
        device = choose_device("sm_90a")
        return cost([LaunchedWorkload(signature, parse(text).plan(signature, device))], (), device)

    calls = changed(("once = true\n", ""))
    only = cost_of(changed(('args = ["weight", "factor", "dim"]', 'args = ["dim"]')))
    assert cost_of(KERNEL) - only == pytest.approx((cost_of(calls) - only) / ONCE_CALLS, rel=0.05)


def test_its_time_is_told_apart():
    class Kernel:
        name = "kernel"

    column = Column(Kernel())
    column.add(0, RoundSamples((10.0, 10.2), "graph replay", (300.0, 320.0)), throttled=False)
    assert column.timing().once_us == 310.0
    column.once_us.clear()
    assert column.timing().once_us == 0.0
    workload = measured(median_us=20.0)
    own = replace(workload.candidate, once_us=310.0)
    told = speed.took_text(replace(workload, timings=(own, *workload.timings[1:])))
    assert told.endswith("1/100 of the 310 µs of launches marked once included")
    assert "once" not in speed.took_text(workload)
