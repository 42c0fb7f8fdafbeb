"""Kernels of the playbook as sources of operators, with the compile server and torch worker that all tests share."""

from __future__ import annotations

from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import load
from cutegen_core.propose.playbook import Target, propose
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from tests.later import Later
from tests.shared_tools import SharedTools

sources = Later("cutegen_core.operators.source")

DEVICE = choose_device("sm_90a")
SCRATCH = """/* cutegen
[let]
n = "x.numel"

[[scratch]]
name = "sums"
dtype = "float32"
shape = ["ceil_div(n, 128)"]
init = "zero"

[[launch]]
kernel = "part"
grid = ["round_up(ceil_div(n, 128), 2)"]
block = [128]
smem = "128 * 4"
CLUSTER
args = ["x", "sums", "n", "scale"]

[[launch]]
kernel = "whole"
grid = ["min(8, sm_count)"]
block = [32]
cooperative = true
args = ["sums", "out", "ceil_div(n, 128)"]
*/
#include <cooperative_groups.h>

__global__ void part(float const* x, float* sums, int n, float scale) {
  extern __shared__ float kept[];
  int const i = blockIdx.x * 128 + threadIdx.x;
  kept[threadIdx.x] = i < n ? x[i] * scale : 0.0f;
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x * 128 < n) {
    for (int k = 0; k < 128; ++k) sums[blockIdx.x] += kept[k];
  }
}

__global__ void whole(float const* sums, float* out, long parts) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    float sum = 0.0f;
    for (long k = 0; k < parts; ++k) sum += sums[k];
    out[0] = sum;
  }
}
"""
_SUM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return (x * self.scale).sum().reshape(1)


n = 1000


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return [0.5]
"""

SUM = Problem(
    "scaled_sum", "A scaled sum", _SUM, "here",
    (Workload("one", WorkloadRole.EMULATOR, {"n": 77}), Workload("own", WorkloadRole.BENCHMARK, {"n": 1000})),
)  # fmt: skip
"""Its kernel has two launches: dynamic shared memory and zeroed scratch, then a cooperative one."""


def text_of(problem: Problem, level: str, shared: SharedTools) -> str:
    """Return the playbook's kernel file of that name."""
    reference = shared.reference(problem)
    workload = problem.workloads[0]
    found = propose(reference.graph(workload), reference.signature(workload), problem.name, Target(allow=problem.allow))
    return next(variant.source for variant in found if variant.name == level)


def source_of(name: str, level: str, shared: SharedTools, *changes: tuple[str, str]) -> object:
    """Return that kernel, compiled; `changes` are edits of its text."""
    problem = load(name)
    text = text_of(problem, level, shared)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return sources.compiled(
        problem, text, "sm_90a", compiler=shared.compiler("sm_90a"), reference=shared.reference(problem)
    )  # fmt: skip
