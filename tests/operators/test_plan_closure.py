"""The launch plan as one Python function: the results of `KernelFile.plan`, in a fraction of its time."""

from __future__ import annotations

import random
import time

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems.library import load
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.problem import Signature, TensorSpec
from tests.later import Later
from tests.operators.plugs import DEVICE, text_of
from tests.places import DATA

plan_closure = Later("cutegen_core.operators.plan_closure")

GATHER = [
    "gather_rows", "gather_mean", "gather_mean_fp16", "gather_mean_backward", "gather_mean_backward_deterministic",
]  # fmt: skip
BALANCED = ("gather_mean", "gather_mean_fp16", "gather_mean_backward_deterministic")
EVERYTHING = """/* cutegen
[let]
n = "x.numel"
odd = "n % 2 == 1 or x.shape[-1] > 500"
math = "n + eps"

[params]
BLOCK = { default = 128, values = [64, 128, 2048] }
SCALE = 0.5
ON = true

[[scratch]]
name = "partial"
dtype = "float32"
shape = ["ceil_div(n, BLOCK)", "max(2, min(n, 7))"]
init = "zero"

[[scratch]]
name = "flags"
dtype = "int32"
shape = ["min(n, 7) ** 2"]

[[launch]]
kernel = "first<BLOCK>"
grid = ["partial.shape[0]", "log2(n) + 1"]
block = ["BLOCK"]
smem = "BLOCK * x.itemsize if odd else n * 4"
args = ["x", "partial", "flags", "n", "math", "not odd", "x.stride[0] if n > 3 else -1", "SCALE * 2", "ON"]

[[launch]]
kernel = "second"
when = "odd and not n == 7"
grid = ["round_up(n, 4)", "1", "arch - 79"]
block = ["warp_size", "n // 1000 + 1"]
cluster = [2]
args = ["partial", "out", "x.shape[0] * x.shape[1]", "sm_count", "smem_max", "n // -3"]

[[launch]]
kernel = "second"
cooperative = true
when = "not odd"
grid = ["min(n, sm_count)"]
block = [32]
args = ["partial", "out", "0", "0", "0", "eps"]
*/
__global__ void first() {}
__global__ void second() {}
"""


def both(kernel, closure, signature, device=DEVICE):
    """Return what the kernel file's plan and the closure say of a signature: a plan, or the words of a refusal."""
    facts = [plan_closure.CallFacts(t.shape, t.itemsize) for t in signature.tensors]
    answers = []
    for plan in (
        lambda: kernel.plan(signature, device),
        lambda: closure.launch_plan(closure(facts, list(signature.scalars.values()))),
    ):
        try:
            answers.append(plan())
        except KernelFileError as error:
            answers.append(str(error))
    return answers


def resized(signature, draw, sizes=(1, 1, 2, 3, 4, 7, 8, 31, 32, 33, 64, 100, 128, 500, 1001, 4096, 70_000)):
    """Return these tensors with extents drawn from `sizes`; what exceeds a plan's limits must be refused alike."""

    def changed(spec):
        return TensorSpec(spec.name, spec.dtype, tuple(draw.choice(sizes) for _ in spec.shape), spec.role)

    return Signature(
        tuple(map(changed, signature.inputs)), tuple(map(changed, signature.outputs)), signature.scalars
    )  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_everything_that_a_plan_may_hold_is_planned_alike(arch):
    kernel, device = kernel_file.parse(EVERYTHING), KNOWN[arch]
    x, out = TensorSpec("x", "float32", (5, 9)), TensorSpec("out", "float32", (5, 9))
    signature = Signature((x,), (out,), {"eps": 0.25})
    closure = plan_closure.PlanClosure(kernel, signature, device)
    draw, seen = random.Random(1), set()
    for _ in range(400):
        other = resized(signature, draw)
        plan, made = both(kernel, closure, other, device)
        assert made == plan
        seen.add(type(plan).__name__ if isinstance(plan, str) else len(plan.launches))
    assert seen == {"str", 1, 2}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", GATHER)
def test_the_playbooks_kernels_are_planned_alike_at_many_sizes(name, shared):
    problem = load(name)
    signatures = [shared.reference(problem).signature(w) for w in problem.workloads]
    draw = random.Random(2)
    for level in ("naive", "vectorised", "persistent", "balanced")[: 3 + (name in BALANCED)]:
        kernel = kernel_file.parse(text_of(problem, level, shared))
        closure = plan_closure.PlanClosure(kernel, signatures[-1], DEVICE)
        for signature in signatures + [resized(signatures[-1], draw) for _ in range(60)]:
            plan, made = both(kernel, closure, signature)
            assert made == plan


def test_kernel_files_of_all_kinds_are_planned_alike(shared):
    tried = 0
    draw = random.Random(3)
    for path in sorted((DATA / "kernels").glob("*.cu")):
        if not path.with_suffix(".py").exists():
            continue
        kernel = kernel_file.parse(path.read_text())
        problem = load(str(path.with_suffix(".py")))
        signature = shared.reference(problem).signature(problem.workloads[0])
        if kernel.tensor_maps:
            continue
        closure = plan_closure.PlanClosure(kernel, signature, DEVICE)
        for other in [signature, *(resized(signature, draw) for _ in range(12))]:
            plan, made = both(kernel, closure, other)
            assert made == plan, path.name
        tried += 1
    assert tried > 30


def best_us(function, repeats=50, rounds=12):
    """Return the fastest of several rounds: other work of the machine only adds to it."""
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(repeats):
            function()
        found.append((time.perf_counter() - started) / repeats * 1e6)
    return min(found)


def test_a_calls_plan_costs_microseconds(shared):
    problem = load("gather_mean")
    kernel = kernel_file.parse(text_of(problem, "persistent", shared))
    workload = next(w for w in problem.workloads if w.name == "layer 1")
    signature = shared.reference(problem).signature(workload)
    closure = plan_closure.PlanClosure(kernel, signature, DEVICE)

    def once():
        return closure([plan_closure.CallFacts(t.shape, t.itemsize) for t in signature.tensors], [])

    assert closure.launch_plan(once()) == kernel.plan(signature, DEVICE)
    fast, slow = best_us(once), best_us(lambda: kernel.plan(signature, DEVICE), repeats=5)
    assert fast < 50
    assert slow > 5 * fast
