"""Launches marked once, and instances by size, on the GPU of this machine: verdicts, and what is counted.

    python -m benchmarks.kernels.once [--budget-s 100]        (without a GPU the verdicts alone, on the emulator)

Rows times the exponential of a parameter, 4096 x 4096 floats: made once in scratch, made in each call, in one launch
without scratch, made once and then changed by a call (refused), and by instances for the sizes. A row has the verdict,
the median with the share of the launches marked once, and their own time.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.conditions import write
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import Problem, Workload, WorkloadRole

SCALED = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))

    def forward(self, x):
        return x * torch.exp(self.weight)

rows = 4096
dim = 4096

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [rows, dim]
"""
ONCE = """/* cutegen
[let]
n = "weight.numel"
cols = "weight.shape[1]"
rows = "weight.shape[0]"
[[scratch]]
name = "factor"
dtype = "float32"
shape = ["n"]
[[launch]]
kernel = "fold"
once = true
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["weight", "factor", "n"]
[[launch]]
kernel = "scale"
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["x", "factor", "out", "n"]
*/
__global__ void fold(float const* weight, float* factor, long n) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) factor[i] = expf(weight[i]);
}
__global__ void scale(float const* x, float const* factor, float* out, long n) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = x[i] * factor[i];
}
"""
FUSED = """/* cutegen
[let]
n = "weight.numel"
[[launch]]
kernel = "fused"
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["x", "weight", "out", "n"]
*/
__global__ void fused(float const* x, float const* weight, float* out, long n) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = x[i] * expf(weight[i]);
}
"""
INSTANCES = """/* cutegen
[let]
rows = "weight.shape[0]"
COLS = "weight.shape[1]"
[[launch]]
kernel = "by_row<COLS>"
grid = ["rows"]
block = [256]
args = ["x", "weight", "out"]
when = "COLS == 4096 or COLS == 96"
[[launch]]
kernel = "by_any"
grid = ["rows"]
block = [256]
args = ["x", "weight", "out", "COLS"]
when = "COLS != 4096 and COLS != 96"
*/
__device__ void one_row(float const* x, float const* weight, float* out, int cols) {
  long const first = long(blockIdx.x) * cols;
  for (int j = threadIdx.x; j < cols; j += 256) out[first + j] = x[first + j] * expf(weight[first + j]);
}
template <int COLS>
__global__ void by_row(float const* x, float const* weight, float* out) { one_row(x, weight, out, COLS); }
__global__ void by_any(float const* x, float const* weight, float* out, int cols) { one_row(x, weight, out, cols); }
"""
CHANGED = ONCE.replace("if (i < n) out[i]", "if (i < n) const_cast<float*>(factor)[i] = x[i];\n  if (i < n) out[i]")
KERNELS = {
    "made once": ONCE,
    "made in each call": ONCE.replace("once = true\n", ""),
    "one launch": FUSED,
    "changed by a call": CHANGED,
    "instances": INSTANCES,
}


def problem() -> Problem:
    small = ((3, 37), (5, 96))
    sizes = [Workload(f"by {d}", WorkloadRole.EMULATOR, {"rows": rows, "dim": d}) for rows, d in small]
    return Problem("scaled", "scaled", SCALED, "scaled.py", (*sizes, Workload("benchmark", WorkloadRole.BENCHMARK)))


def measured(evaluator: Evaluator, source: str) -> dict[str, Any]:
    trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=11)
    performance = trial.performance
    timing = performance.workloads[0].candidate if performance and performance.workloads else None
    return {
        "status": str(trial.status), "message": trial.message[:160], "us": timing.median_us if timing else None,
        "once_us": timing.once_us if timing else None,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget-s", type=float, default=100.0, help="begin no kernel after this")
    budget, begun, rows = parser.parse_args().budget_s, time.monotonic(), dict[str, Any]()
    device = choose_device()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-once-"))
        made, compiler = problem(), Compiler(device.arch)
        reference, executor = Reference(made, Path(scratch)), _executor(device.present)
        for close in (reference.close, compiler.close, executor.close):
            stack.callback(close)
        timer = stack.enter_context(Timer(reference, device)) if device.present else None
        evaluator = Evaluator(made, reference, executor, compiler, device, content_key, timer)
        for name, source in KERNELS.items():
            if time.monotonic() - begun > budget:
                break
            rows[name] = measured(evaluator, source)
            print(f"{name:20} {rows[name]}", flush=True)
    if device.present:
        write("once_h200", {"device": device.name, "kernels": rows})


def _executor(present: bool) -> Any:  # noqa: ANN401 - either executor
    if not present:
        return CpuExecutor()
    from cutegen_core.execute.executors.gpu import GpuExecutor  # it needs the driver

    return GpuExecutor()


if __name__ == "__main__":
    main()
