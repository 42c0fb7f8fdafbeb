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
    """Return the workload of another shape; not worth a second instrumented run."""
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
    "rowmax": _written(
        "rowmax", "Largest of every row", "x", "torch.amax(x, dim=1)", "torch.randn(M, N)",
        _small("ragged", M=5, N=259), _big(M=1024, N=16384),
    ),
    "colmax": _written(
        "colmax", "Largest of every column", "x", "torch.amax(x, dim=0)", "torch.randn(M, N)",
        _small("ragged", M=259, N=7), _big(M=16384, N=1024),
    ),
    "layernorm": _written(
        "layernorm", "Rows normalised", "x", "torch.nn.functional.layer_norm(x, (N,))", "torch.randn(M, N)",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "rmsnorm": _written(
        "rmsnorm", "Rows divided by their root mean square", "x",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "torch.randn(M, N)",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "unit": _written(
        "unit", "Rows of length one", "x", "torch.nn.functional.normalize(x, dim=1)", "torch.randn(M, N)",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "argmax": _written(
        "argmax", "Place of the largest of a row", "x", "torch.argmax(x, dim=1)", "torch.randn(M, N)",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "logsumexp": _written(
        "logsumexp", "Logarithm of the sum of exponentials", "x", "torch.logsumexp(x, dim=1)", "torch.randn(M, N)",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "leaky": _written(
        "leaky", "Leaky ReLU", "x", "torch.nn.functional.leaky_relu(x, 0.01)", "torch.randn(M, N)",
        _small("ragged", M=3, N=333), _big(M=1024, N=4096),
    ),
    "tanh": _written(
        "tanh", "Hyperbolic tangent", "x", "torch.tanh(x)", "torch.randn(M, N)",
        _small("ragged", M=3, N=333), _big(M=1024, N=4096),
    ),
    "silu": _written(
        "silu", "SiLU", "x", "torch.nn.functional.silu(x)", "torch.randn(M, N)",
        _small("ragged", M=3, N=333), _big(M=1024, N=4096),
    ),
    "softplus": _written(
        "softplus", "Softplus", "x", "torch.nn.functional.softplus(x)", "torch.randn(M, N)",
        _small("ragged", M=3, N=333), _big(M=1024, N=4096),
    ),
    "copysign": _written(
        "copysign", "The sign of each element", "x", "torch.copysign(torch.ones_like(x), x)", "torch.randn(M, N)",
        _small("ragged", M=3, N=333), _big(M=1024, N=4096),
    ),
    "product_of_masks": _written(
        "product_of_masks", "Mean of the rows' chosen elements", "x, m",
        "(x * m).sum(1) / m.sum(1).clamp(min=1)", "torch.randn(M, N), torch.rand(M, N) < 0.5",
        _small("ragged", M=5, N=257), _big(M=1024, N=4096),
    ),
    "segments": _written(
        "segments", "Rows added up by segment", "x, s", "torch.zeros(S, x.shape[1]).index_add(0, s, x)",
        "torch.randn(N, D), torch.randint(0, S, (N,))", _small("ragged", N=301, S=17, D=5), _big(N=65536, S=512, D=32),
    ),
    "rows_of_a_table": _written(
        "rows_of_a_table", "Rows of a table picked by index", "t, s", "t[s]",
        "torch.randn(V, D), torch.randint(0, V, (N,))",
        _small("ragged", N=61, V=1000, D=5), _big(N=65536, V=50000, D=32),
    ),
    "triangle": _written(
        "triangle", "Product with a lower triangle", "a, b", "a @ b", "torch.randn(N, N).tril(), torch.randn(N, N)",
        _small("ragged", N=37), _big(N=1024),
    ),
    "offsets": _written(
        "offsets", "Sums between offsets", "x, s",
        "torch.segment_reduce(x, 'sum', offsets=s)",
        "torch.randn(N), torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(1, N, (S - 1,)).sort()[0], "
        "torch.full((1,), N)])",
        _small("ragged", N=1001, S=23), _big(N=1 << 20, S=512),
    ),
}  # fmt: skip
