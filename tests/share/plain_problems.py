"""The problem that each file of `tests/data/plain` solves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cutegen_core.problems import library, read
from cutegen_core.records.problem import Problem
from tests.places import DATA

ADD_NORM = """
import torch

ALIAS = {"out0": "x", "out1": "residual"}
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "dim": 1},
    "ragged": {"role": "emulator", "tokens": 7, "dim": 509},
    "benchmark": {"role": "benchmark"},
}
TOLERANCE = {"float32": {"atol": 1e-5, "rtol": 1e-4}}

class Model(torch.nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x, residual):
        total = x + residual
        return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight, total

tokens = 2048
dim = 4096
eps = 1e-6

def get_inputs():
    return [torch.randn(tokens, dim), torch.randn(tokens, dim)]

def get_init_inputs():
    return [dim, eps]
"""


def add_norm() -> Problem:
    """Residual add and RMSNorm with both outputs, which replace the inputs in place."""
    return read.read(ADD_NORM, "add_norm", "add_norm.py")


def transpose() -> Problem:
    """Return the transposition of the honest kernels."""
    return library.load(str(DATA / "kernels" / "transpose.py"))


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "relu_main.cu": partial(library.load, "relu"),
    "softmax_extension.cu": partial(library.load, "softmax"),
    "silu_dispatch.cu": partial(library.load, "silu_and_mul"),
    "transpose_dim3.cu": transpose,
    "gelu_helper.cu": partial(library.load, "gelu"),
    "rmsnorm_macro.cu": partial(library.load, "rmsnorm"),
    "softmax_chain.cu": partial(library.load, "softmax"),
    "add_norm_inplace.cu": add_norm,
    "relu_config.cu": partial(library.load, "relu"),
}
