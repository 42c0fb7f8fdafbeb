"""What a trace records in other operations: known ones, at the line of the call, with the numbers of the original."""

from __future__ import annotations

import pytest

from cutegen_core.records import operations as ops
from cutegen_core.records.operations import Flow

MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def forward(self, x):
        y, places = x.abs(), (x * 9).abs().long() % 8
        return {call}
def get_inputs():
    return [torch.randn(8, 16)]
"""
LINE = 6
CALLS = {
    "F.embedding_bag(places, y)": "embedding_bag",
    "F.embedding_bag(places[:, :3], x, mode='max')": "embedding_bag",
    "F.embedding_bag(places, x, mode='sum', per_sample_weights=y)": "embedding_bag",
    "F.gaussian_nll_loss(x, y, y + 1)": "gaussian_nll_loss",
    "F.gaussian_nll_loss(x, y, y[:, 0], full=True, reduction='sum')": "gaussian_nll_loss",
    "x.cov()": "cov",
    "torch.cov(x, correction=0)": "cov",
    "torch.corrcoef(x)": "corrcoef",
    "torch.gradient(x, dim=1)[0]": "gradient",
    "torch.cumulative_trapezoid(x, dim=1)": "cumulative_trapezoid",
    "F.max_unpool1d(*F.max_pool1d(x[None], 2, return_indices=True), 2)": "max_unpool2d",
    "F.max_unpool3d(*F.max_pool3d(x.view(1, 2, 4, 4, 4), 2, return_indices=True), 2)": "max_unpool3d",
    "torch.diagflat(x[0])": "diagflat",
    "torch.linalg.vecdot(x, y)": "linalg_vecdot",
    "x / x.data.amax()": "data",
    "torch.special.ndtr(x)": "special_ndtr",
    "torch.native_channel_shuffle(x.view(2, 4, 4, 4), 2)": "native_channel_shuffle",
    "torch.norm_except_dim(x, 2, 0)": "norm_except_dim",
    "nn.utils.rnn.pad_sequence([x[:3], x], batch_first=True)": "pad_sequence",
    "torch.row_stack([x, y])": "row_stack",
    "torch.mvlgamma(y + 3, 2)": "mvlgamma",
    "(x @ x.t()).fill_diagonal_(-3.0)": "fill_diagonal_",
    "(x.t() * 1).fill_diagonal_(2.0, wrap=True)": "fill_diagonal_",
    "(x @ x.t())[tuple(torch.tril_indices(8, 8, -1))]": "tril_indices",
    "(x.t() @ x)[tuple(torch.tril_indices(16, 16))]": "tril_indices",
    "(x.t() @ x)[tuple(torch.triu_indices(16, 16, offset=2))]": "triu_indices",
    "torch._foreach_sub([x, y], torch._foreach_mul([y, x], [0.5, 2.0]), alpha=3)[1]": "_foreach_sub",
    "torch._foreach_addcdiv([x], [y], torch._foreach_maximum([y], 0.1), value=-2.0)[0]": "_foreach_addcdiv",
    "torch.mul(x, y, out=torch.empty_like(x)) + 1": "empty_out",
    "torch.bincount(places.flatten(), minlength=8)": "bincount",
    "places[0].bincount(y[0], 9)": "bincount",
    "torch._foreach_norm([x, y[0]])[1]": "_foreach_norm",
    "torch.view_as_real(torch.view_as_complex(x.view(8, 8, 2)) * torch.polar(y[:, :8], x[:, 8:])).flatten(1)": "polar",
    "(torch.complex(x, y) / torch.complex(y + 1, x)).abs()": "complex",
    "torch.exp(1j * x).real - (x.to(torch.complex64) + 2j).conj().imag": "exp_complex",
    "(torch.complex(x, y) @ torch.complex(y, x).t()).angle()": "angle",
    "torch.stack((torch.complex(x, y), torch.complex(y, x).roll(1, 0) - 2), 1)[:, 1].sum(-1).imag": "complex",
    "(2 / (torch.complex(x, y)[:, 2:] ** 2 * x[:, 2:])).chunk(2, 1)[0].square().reciprocal().abs()": "complex",
}


@pytest.mark.parametrize(("call", "named"), CALLS.items(), ids=CALLS)
def test_each_is_traced_as_known_operations_that_make_the_same(call: str, named: str) -> None:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    from cutegen_core.judge.reference_process import tracing
    from cutegen_core.judge.reference_process.modes.in_other_words import InOtherWords

    source = MODEL.format(call=call)
    graph = tracing.trace(source, "model.py")
    assert graph.reason == ""
    names = {ops.name(node) for node in graph.nodes}
    assert named not in names
    assert Flow.UNKNOWN not in {ops.traits(node).flow for node in graph.nodes}
    assert {node.line for node in graph.nodes if node.name in graph.outputs} == {LINE}

    space: dict[str, type[torch.nn.Module]] = {}
    exec(source, space)
    model, x = space["Model"](), torch.randn(8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with InOtherWords():
        traced = make_fx(model, decomposition_table=tracing.compositions(), pre_dispatch=True)(x)
    torch.testing.assert_close(traced(x), model(x), equal_nan=True)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("torch.complex(x, y).sqrt().real", "no rule for sqrt of complex numbers"),
        ("(torch.fft.rfft(x) * torch.complex(x, y)[:, :9]).abs()", "as an FFT"),
        ("x[x > 0].sum()", "what a mask chooses (x[mask], torch.where(mask), nonzero) depends on a tensor's values"),
        ("x / x.amax().item()", "keep it a tensor (no .item(), float() or int())"),
        ("(lambda z: (z.mul_(z), z)[1])(torch.complex(x, y)).real", "no rule for mul in place of complex numbers"),
    ],
)
def test_what_nobody_has_rules_for_is_named(call: str, named: str) -> None:
    from cutegen_core.judge.reference_process import tracing

    graph = tracing.trace(MODEL.format(call=call), "model.py")
    assert "model.py:6" in graph.reason
    assert named in graph.reason
