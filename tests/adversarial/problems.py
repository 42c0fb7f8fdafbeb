"""The problems the adversarial kernels attack: small, one or two workloads each, every dtype somewhere.

Catalogue problems keep their reference and tolerance; only their workloads are cut down. The others are written here,
but for those of the right kernels, which have files (`right_kernels`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen_core.problems import library
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.adversarial import right_kernels

_TEMPLATE = """
import torch
import torch.nn as nn

{sizes}

class Model(nn.Module):
    def forward(self, {arguments}):
        return {result}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def _small(name: str, **sizes: int | tuple[int, ...]) -> Workload:
    return Workload(name, WorkloadRole.EMULATOR, sizes)


def _other(name: str, **sizes: int | tuple[int, ...]) -> Workload:
    """Another shape; not worth a second instrumented run."""
    return Workload(name, WorkloadRole.CORRECTNESS, sizes)


def _big(**sizes: int | tuple[int, ...]) -> Workload:
    return Workload("benchmark", WorkloadRole.BENCHMARK, sizes)


def _catalogue(name: str, *workloads: Workload) -> Problem:
    return replace(library.load(name), name=f"adversarial_{name}", workloads=workloads)


def _written(name: str, title: str, arguments: str, result: str, inputs: str, *workloads: Workload) -> Problem:
    big = workloads[-1].sizes
    sizes = "\n".join(f"{size} = {value!r}" for size, value in big.items())
    source = _TEMPLATE.format(sizes=sizes, arguments=arguments, result=result, inputs=inputs)
    return Problem(f"adversarial_{name}", title, source, "tests", workloads)


PROBLEMS: Mapping[str, Problem] = {
    **right_kernels.PROBLEMS,
    "relu": _catalogue(
        "relu", _small("ragged", batch_size=3, dim=333), _other("tile", batch_size=2, dim=512),
        _big(batch_size=1024, dim=4096),
    ),
    "mean": _catalogue(
        "mean_reduction", _small("ragged", batch_size=5, dim=257),
        Workload("large_mean", WorkloadRole.EMULATOR, {"batch_size": 3, "dim": 129}, Values.LARGE_MEAN),
        _big(batch_size=1024, dim=4096),
    ),
    "softmax": _catalogue("softmax", _small("ragged", batch_size=5, dim=257), _big(batch_size=1024, dim=4096)),
    "matmul": _written(
        "matmul", "Square product, float32", "a, b", "a @ b", "torch.randn(N, N), torch.randn(N, N)",
        _small("ragged", N=37), _other("tile", N=64), _big(N=1024),
    ),
    "matmul_half": _written(
        "matmul_half", "Square product, float16", "a, b", "a @ b",
        "torch.rand(N, K).half(), torch.rand(K, N).half()",
        _small("long", N=17, K=1031), _big(N=512, K=4096),
    ),
    "add_bfloat16": _written(
        "add_bfloat16", "Sum of two bfloat16 tensors", "a, b", "a + b",
        "torch.randn(N, dtype=torch.bfloat16), torch.randn(N, dtype=torch.bfloat16)",
        _small("ragged", N=1021), _big(N=1 << 22),
    ),
    "histogram": _written(
        "histogram", "Histogram of bytes, exact", "x",
        "torch.bincount(x.long(), minlength=256).to(torch.int32)",
        "torch.randint(0, 256, (N,), dtype=torch.int32)",
        _small("ragged", N=4099), _big(N=1 << 22),
    ),
    "one": _written(
        "one", "A single element", "x", "x * 2 + 1", "torch.randn(N)", _small("one", N=1), _big(N=1),
    ),
    "empty": _written(
        "empty", "Nothing to write, or a little", "x", "x * 2 + 1", "torch.randn(N)",
        _small("empty", N=0), _small("little", N=33), _big(N=1 << 20),
    ),
    "total": _written(
        "total", "Sum of everything", "x", "x.sum().reshape(1)", "torch.randn(N)",
        _small("ragged", N=10007), _big(N=1 << 16),
    ),
    "transpose": _written(
        "transpose", "Transposition", "x", "x.t().contiguous()", "torch.randn(M, N)",
        _small("ragged", M=37, N=70), _big(M=2048, N=2048),
    ),
    "scale": _written(
        "scale", "Every row times its weight", "x, w", "x * w[:, None]", "torch.randn(M, N), torch.rand(M) + 0.5",
        _small("ragged", M=9, N=65), _big(M=2048, N=2048),
    ),
}  # fmt: skip
