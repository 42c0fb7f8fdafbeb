"""The built-in problems: an honest, naive float32 kernel of each passes every small workload, wrong ones do not."""

import numpy as np
import pytest

from cutegen_core.problems.library import catalogue, load
from cutegen_core.records.problem import Values, WorkloadRole
from tests.problems.judging import assert_judged

ASKED_FOR = [
    "relu", "gelu", "swish", "softsign", "softmax", "logsoftmax", "layernorm", "rmsnorm", "sum_reduction",
    "mean_reduction", "max_reduction", "matmul_square", "matmul_transposed_a", "matmul_transposed_b", "batched_matmul",
    "matvec", "matmul_bias_relu",
]  # fmt: skip
NAMES = [problem.name for problem in catalogue()]
DTYPES = {"float32": np.float32, "float16": np.float16}


@pytest.fixture
def reference(request, shared, tmp_path):
    return shared.reference(load(request.param), tmp_path)


def added_up(terms, axis):
    """Add up in one accumulator of float32, first to last."""
    return np.add.accumulate(terms.astype(np.float32), axis=axis).take(-1, axis=axis)


def product(a, b):
    total = np.zeros((*a.shape[:-1], b.shape[-1]), dtype=np.float32)
    for k in range(a.shape[-1]):
        total += a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return total


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def erf(x):
    from math import erf as exact

    return np.vectorize(exact, otypes=[np.float32])(x)


def softmax_parts(x):
    shifted = x - x.max(1, keepdims=True)
    return shifted, added_up(np.exp(shifted), 1)[:, None]


def rmsnorm(x, weight):
    return x * (1 / np.sqrt(added_up(x * x, 1)[:, None] / np.float32(x.shape[1]) + np.float32(1e-6))) * weight


def layernorm(x, weight, bias):
    n = np.float32(x.shape[1])
    centred = x - added_up(x, 1)[:, None] / n
    return centred * (1 / np.sqrt(added_up(centred * centred, 1)[:, None] / n + np.float32(1e-5))) * weight + bias


def silu_and_mul(x):
    gate, up = np.split(x.astype(np.float32), 2, axis=1)
    return gate * sigmoid(gate) * up


def conv_bias_relu(x, weight, bias):
    """Compute one tap of one channel after the other."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = np.zeros((len(x), len(weight), *x.shape[2:]), dtype=np.float32)
    for c, h, w in np.ndindex(*weight.shape[1:]):
        seen = padded[:, c, h : h + x.shape[2], w : w + x.shape[3]]
        total += weight[:, c, h, w][None, :, None, None] * seen[:, None]
    return np.maximum(total + bias[:, None, None], 0)


KERNELS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.float32(0.5) * x * (1 + erf(x * np.float32(0.5**0.5))),
    "swish": lambda x: x * sigmoid(x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "leaky_relu": lambda x: np.where(x > 0, x, x * np.float32(0.01)),
    "softmax": lambda x: np.exp(softmax_parts(x)[0]) / softmax_parts(x)[1],
    "logsoftmax": lambda x: softmax_parts(x)[0] - np.log(softmax_parts(x)[1]),
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "add_rmsnorm": lambda x, residual, weight: rmsnorm(x + residual, weight),
    "sum_reduction": lambda x: added_up(x, 1)[:, None],
    "mean_reduction": lambda x: added_up(x, 1) / np.float32(x.shape[1]),
    "max_reduction": lambda x: x.max(1),
    "matmul_square": product,
    "matmul_transposed_a": lambda a, b: product(a.T, b),
    "matmul_transposed_b": lambda a, b: product(a, b.T),
    "matmul_both_transposed": lambda a, b: product(a.T, b.T),
    "batched_matmul": product,
    "matvec": product,
    "matmul_bias_relu": lambda x, weight, bias: np.maximum(product(x, weight.T) + bias, 0),
    "silu_and_mul": silu_and_mul,
    "conv_bias_relu": conv_bias_relu,
    "cumsum": lambda x: np.add.accumulate(x, axis=1),
}
WITHOUT = [name for name in NAMES if name not in KERNELS] or ["softmax"]
"""Problems without a kernel here are judged on the reference's own answer; one of the others stands for none."""


def every_second(names):
    """Mark the others as thorough: neighbours are of one kind."""
    return [pytest.param(name, id=name, marks=pytest.mark.thorough if i % 2 else ()) for i, name in enumerate(names)]


def judged(reference, workload, seed, kernel):
    """Return what the comparison says of a kernel written in numpy."""
    arrays = [
        np.fromfile(path, dtype=DTYPES[spec.dtype]).reshape(spec.shape)
        for spec, path in reference.write_inputs(workload, seed).items()
    ]
    (spec,) = reference.signature(workload).outputs
    path = reference.scratch / "out.bin"
    np.ascontiguousarray(kernel(*arrays).astype(DTYPES[spec.dtype])).tofile(path)
    (comparison,) = reference.compare(workload, seed, {spec: path})
    return comparison


def test_the_catalogue_has_what_was_asked_for_and_a_kernel_here_for_each():
    assert set(ASKED_FOR) <= set(KERNELS)
    assert set(KERNELS) <= set(NAMES)
    assert len(NAMES) == len(set(NAMES)), "two families have a problem of the same name"


@pytest.mark.by_default(3)
@pytest.mark.parametrize("reference", WITHOUT, indirect=True, ids=WITHOUT)
def test_its_own_answer_passes_and_one_wrong_element_does_not(reference):
    assert_judged(reference, reference.problem.with_role(WorkloadRole.EMULATOR)[0])


@pytest.mark.by_default(3)
@pytest.mark.parametrize("reference", every_second(KERNELS), indirect=True)
def test_an_honest_naive_kernel_passes_every_small_workload(reference):
    kernel = KERNELS[reference.problem.name]
    for workload in reference.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS):
        for seed in (1, 20):
            comparison = judged(reference, workload, seed, kernel)
            assert comparison.wrong == 0, (workload.name, seed, comparison.error_ratio, comparison.first)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("reference", every_second(KERNELS), indirect=True)
def test_zeros_and_a_kernel_that_ignores_the_tail_fail(reference):
    kernel = KERNELS[reference.problem.name]
    workload = next(w for w in reference.problem.workloads if w.name == "ragged")
    assert judged(reference, workload, 2, lambda *a: kernel(*a) * 0).wrong > 0

    def without_tail(*arrays):
        out = kernel(*arrays).reshape(-1).astype(np.float32)
        out[-1:] = np.nan
        return out

    assert judged(reference, workload, 2, without_tail).wrong == 1


@pytest.mark.by_default(3)
@pytest.mark.parametrize("reference", every_second(NAMES), indirect=True)
def test_its_own_size_is_real_work(reference):
    benchmarks = reference.problem.with_role(WorkloadRole.BENCHMARK)
    published = bool(reference.problem.existing)  # the shapes that others measured, small ones among them
    assert published or max(reference.signature(own).nbytes for own in benchmarks) > 50 << 20
    assert {reference.graph(own).reason for own in benchmarks} == {""}
    values = {w.values for w in reference.problem.workloads}
    assert len(values) > 1, "needs a workload with adversarial values"
    for workload in reference.problem.with_role(WorkloadRole.EMULATOR):
        assert sum(t.numel for t in reference.signature(workload).tensors) < 60_000
    assert Values.GIVEN in values
