"""Every operation that the table of operations calls pointwise, and what is joined, counted or cut, is in the playbook.

Each is right on the emulator, on awkward sizes and where inputs are NaN or infinite; what has no rule is listed here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.propose.playbook.pointwise.operations import BINARY, UNARY
from cutegen_core.propose.playbook.rules import RULES
from cutegen_core.records.operations import OPERATIONS, Flow
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

NO_RULE = {"erfinv", "digamma", "i0"}
"""No function of the C library computes them, and the playbook has no formula."""
INPUTS = {
    "x": "torch.randn(R, C)", "y": "torch.randn(R, C)", "u": "torch.rand(R, C) * 2 - 1", "p": "torch.rand(R, C) * 3",
    "i": "torch.randint(-20, 20, (R, C))", "j": "torch.randint(1, 7, (R, C))", "w": "torch.rand(C)",
}  # fmt: skip
POINTWISE = {
    "one": (
        "torch.tan(x), torch.asin(u), torch.acos(u), torch.atan(x), torch.sinh(x), torch.cosh(x), torch.asinh(x), "
        "torch.acosh(p + 1), torch.atanh(u), torch.lgamma(p), torch.sinc(x), torch.deg2rad(x), torch.rad2deg(x), "
        "torch.frac(x), torch.sgn(x), torch.sign(x), torch.neg(x), torch.square(x), torch.abs(x), torch.relu(x)"
    ),
    "functions": (
        "torch.exp(x), torch.exp2(x), torch.expm1(x), torch.log(p), torch.log2(p), torch.log10(p), torch.log1p(p), "
        "torch.sin(x), torch.cos(x), torch.sqrt(p), torch.rsqrt(p), torch.reciprocal(p), torch.sigmoid(x), "
        "torch.tanh(x), torch.erf(x), torch.erfc(x), x.floor(), x.ceil(), x.round(), x.trunc(), torch.logit(u * u)"
    ),
    "activations": (
        "F.silu(x), F.elu(x), F.celu(x), F.selu(x), F.gelu(x), F.mish(x), F.softplus(x), F.logsigmoid(x), F.relu6(x), "
        "F.leaky_relu(x), F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x), F.threshold(x, 0.1, 2.0), F.hardshrink(x), "
        "F.softshrink(x), F.rrelu(x), F.prelu(x, w), F.dropout(x, training=False), "
        "F.alpha_dropout(x, training=False), F.feature_alpha_dropout(x, training=False), "
        "torch.feature_dropout(x, 0.5, False)"
    ),
    "kinds of numbers": (
        "torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.isposinf(x), torch.isneginf(x), torch.signbit(x), "
        "torch.signbit((x * 0.0).abs()), i.abs(), "
        "torch.isclose(x, y, atol=0.5), torch.nan_to_num(x), torch.nan_to_num(x, 1.0, 2.0, -3.0), x.clamp(-1, 1), "
        "x.clamp_min(0.5), x.clamp_max(y), torch.logical_not(x > 0), torch.logical_and(x > 0, y > 0), "
        "torch.logical_or(x > 0, y > 0), torch.logical_xor(x > 0, y > 0), x == y, x != y, x < y, x <= y, x > y, x >= y"
    ),
    "two": (
        "x + y, x - y, x * y, x / y, torch.rsub(x, y), torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), "
        "torch.fmin(x, y), torch.hypot(x, y), torch.copysign(x, y), torch.fmod(x, y), torch.remainder(x, y), "
        "torch.floor_divide(x, y), x // 0.1, torch.div(x, y, rounding_mode='trunc'), torch.heaviside(x, y), "
        "torch.xlogy(x, p), torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.float_power(p, y), x % 0.3, p ** y, "
        "torch.atan2(x, y)"
    ),
    "three": (
        "x.masked_fill(y > 0, -1e4), x.masked_fill(y > 0, 5), torch.where(x > 0, x, 5), torch.where(x > 0, 2, y), "
        "torch.lerp(x, y, 0.3), torch.lerp(x, y, u), torch.addcmul(x, y, p, value=0.5), "
        "torch.addcdiv(x, y, p + 1, value=-2)"
    ),
    "whole numbers": (
        "i // j, i % j, torch.fmod(i, j), torch.div(i, j, rounding_mode='trunc'), i & j, i | j, i ^ j, ~i, i << 2, "
        "torch.round(x * 9, decimals=2), torch.round(x * 99, decimals=-1), i >> 1, "
        "(x > 0) & (y > 0), ~(x > 0), (x > 0) ^ (y > 0), i.masked_fill(x > 0, 7), i / j"
    ),
}
KINDS = {
    "numbers of another kind than the tensor's": (
        "(x > 0) + 2, (x > 0) * 3, (x > 0) == 2, (x > 0) * 0.5, i > 2.5, i == 0.5, torch.where(i <= 1.5, x, y), "
        "i.clamp(0.5, 3.5), i.clamp(min=-2 ** 63), torch.isin(i, 2.5), 2.5 // i.abs().clamp(1), torch.fmod(i, 1.5)"
    ),
    "tensors of several kinds": (
        "torch.add(x, i, alpha=0.5), torch.rsub(x, y, alpha=2), torch.rsub(i, j, alpha=3), i.clamp(max=x), "
        "x.half().clamp(min=y), torch.maximum(i, x), torch.maximum(x > 0, i * 2 ** 40 + 1), "
        "torch.maximum(x, y.double()), torch.logaddexp(x, y.double()), (i > x) | (x > y.double()), "
        "torch.linalg.vector_norm(x, dim=1, dtype=torch.float64), i.float().norm(dim=0, dtype=torch.float64)"
    ),
    "whole numbers that are whole already": (
        "torch.floor(i * 2 ** 55 + 1), torch.ceil(i * 2 ** 55 + 1), torch.round(i * 2 ** 55 + 1), "
        "torch.trunc(i * 2 ** 55 + 1)"
    ),
}
OTHERS = {
    "counts": (
        "torch.any(x > 1, 1), torch.all(x > -1, 1), torch.count_nonzero(x > 0, 1), torch.nansum(x, 1), "
        "torch.aminmax(x, dim=1)[0], torch.aminmax(x, dim=1)[1], torch.var_mean(x, 1)[1], torch.norm(p, p=3, dim=1), "
        "torch.prod(p, 1)"
    ),
    "wholes": "torch.any(x > 3), torch.dist(x, y), torch.linalg.norm(x), torch.trace(x), torch.diagonal(y) * 2",
    "parts": (
        "x[:, ::2] + y[:, 1::2], torch.movedim(x, 0, 1) * 2, x.unflatten(1, (2, C // 2)).unbind(1)[1] + 1, "
        "x.split([C // 4, C - C // 4], 1)[1] * 2, F.glu(x, -1), x.fliplr() + 0"
    ),
    "windows": (
        "x.unfold(1, 8, 4).sum(-1), x.unfold(0, 3, 2) * 2, (x * w).unfold(1, 5, 5).amax(2), x.t().unfold(0, 4, 1) + 1, "
        "(x + w).unfold(0, 2, 1).mean(-1), F.unfold(x[None, None], 4, stride=3) * 2, "
        "F.unfold(y.unflatten(1, (2, C // 2)).transpose(0, 1), (3, 2))"
    ),
    "joins": (
        "torch.stack([x, y], 1), torch.hstack([x, y]), torch.vstack([x, y]), F.pad(x, (1, 2)), "
        "F.pad(x, (0, 3, 2, 0), value=1.5), torch.roll(x, 3, 1), torch.roll(x, -2, 0), x.repeat(2, 3), "
        "x[:1].repeat(R, 1), x.repeat_interleave(3, 1)"
    ),
    "edges of their own": (
        "F.pad(x[None, None], (2, 1, 3, 0), mode='reflect') * 2, F.pad(x[None, None], (0, 2, 1, 3), mode='replicate'), "
        "F.pad(x[None, None], (2, 3, 1, 0), mode='circular'), F.pad(torch.cumsum(x, 1)[None], (3, 0), mode='reflect')"
    ),
    "differences and turns": (
        "torch.diff(x), torch.diff(x, n=2, dim=0) * 2, torch.diff(torch.cumsum(x, 1), dim=1), torch.rot90(x), "
        "torch.rot90(x, -1), torch.rot90(x[None] + 1, 2, (1, 2)), x * torch.linspace(-1, 0.5, x.shape[1]), "
        "torch.linspace(0, 1, 7) + 0, torch.linspace(2, 3, 1) * 2"
    ),
    "steps that each read two parts of the last": (
        "__import__('functools').reduce(lambda v, _: v[:, :-1] * 0.5 + v[:, 1:] * p[0, 0], range(14), x), "
        "x[None, :, None].flatten(0, 2) * 2, y[None].flatten(start_dim=0, end_dim=1) + 1"
    ),
    "diagonals, pairs and lists": (
        "(x @ y.t()).fill_diagonal_(0.5), (x * 1).fill_diagonal_(2.0, wrap=True), "
        "(x @ y.t())[tuple(torch.tril_indices(R, R, -1))], (x @ y.t())[tuple(torch.triu_indices(R, R))], "
        "torch._foreach_mul([x, y], [2.0, 0.5])[1]"
    ),
    "distances": "torch.cdist(x, y) + 1, torch.cdist(x[None], y[None, : R // 2], p=1.0)",
    "drawn out and shuffled": (
        "F.interpolate(x[None, None], scale_factor=2) * 2, F.interpolate(x[None], size=4 * C), "
        "F.interpolate(y[None], scale_factor=3, mode='nearest-exact'), F.interpolate(y[None], size=36 * 32), "
        "F.pixel_unshuffle(x[None], 2), F.channel_shuffle(y[None], 2) + 1"
    ),
    "interpolated": (
        "F.interpolate(x[None, None], scale_factor=2, mode='bilinear') * 2, "
        "F.interpolate(x[None, None], scale_factor=(3, 2), mode='bilinear', align_corners=True), "
        "F.interpolate(y[None, None], size=(17, 40), mode='bilinear'), "
        "F.interpolate(x[None], scale_factor=1.5, mode='linear', align_corners=True), "
        "F.interpolate(y[None], size=1, mode='linear', align_corners=True), "
        "F.interpolate(y[None], size=7, mode='linear'), "
        "F.interpolate(x.unflatten(1, (2, C // 2))[None, None], scale_factor=2, mode='trilinear')"
    ),
    "parts of what other kernels write": (
        "torch.cumsum(x, 1)[:, 3:], torch.cumsum(x, 1)[:, ::3] * 2, torch.cumsum(x, 1).unfold(1, 8, 4).mean(-1), "
        "torch.cat((x, y), 1)[:, 2:-3] + 1, torch.cat((x, y))[1::2], torch.cat((x, y)).view(2, R, C)[0, 2:], "
        "x.flip(1)[:, 1:5], torch.cumsum(x, 1)[:, 1:] - torch.cumsum(x, 1)[:, :-1]"
    ),
    "diagonals": (
        "torch.diagonal(torch.cumsum(x, 1)[:, 3:]), torch.diagonal(x + w, -4), torch.diag(y, 5) * 2, "
        "torch.diagonal(y.unflatten(1, (2, C // 2)), 1, 2, 0).sum(-1), torch.trace(x[:7])"
    ),
    "pairs turned": "torch.stack((x[:, ::2] * w[::2] - x[:, 1::2], x[:, ::2] + x[:, 1::2] * w[1::2]), -1).flatten(-2)",
    "complex numbers": (
        "torch.view_as_real(torch.view_as_complex(x.view(R, -1, 2)) * torch.polar(p, y)[:, : C // 2]).flatten(1), "
        "torch.complex(x, y).abs(), (torch.exp(1j * x) / torch.complex(p + 1, y)).imag"
    ),
    "the largest of a row": "x.topk(3), torch.softmax(y, 1).topk(2, 0, largest=False)[0]",
}
FORMS = {
    "casts": (
        "x.half().type_as(y) * 2, (x * 2).to(p.half()) + 1, x.exp().to(w.device, torch.float64), (x > 0).type_as(x)"
    ),
    "contracted": (
        "torch.tensordot(x, y, dims=([1], [1])), torch.tensordot(x[None], y, dims=([2, 1], [1, 0])) * 2, "
        "torch.linalg.multi_dot([x, y.t(), p]), torch.linalg.multi_dot([x, y.t(), p, w])"
    ),
    "parts, put together": (
        "x[:, 1:].reshape(-1) * 2, torch.cumsum(x[1:, :-2].flatten(), 0), x[:, ::2].reshape(-1).sum(), "
        "F.cross_entropy(x[:, 2:-1].reshape(-1, 1, C - 3).squeeze(1), (i[:, 0] % 3).abs())"
    ),
    "ranks": (
        "x.topk(3)[0], y.topk(2, 0, largest=False)[1], torch.softmax(x, 1).topk(2, -1)[0].sum(-1), "
        "x.kthvalue(3, 1)[0], torch.cummax(x, 1)[1], torch.cummin(x, 0)[1], x.half().topk(2)[0]"
    ),
    "so far, beside its own elements": (
        "x.cumsum(1) + x, torch.where(x > 0, (x > 0).long().cumsum(1) - 1, -1), (x * w).cumsum(0) * x, "
        "torch.cumsum(x.flip(1), 1).flip(1) - x, torch.cumsum(torch.softmax(y, 1), 1)"
    ),
    "pieces": (
        "x.chunk(5, 1)[4] * 2, x.split(7, 1)[2] + 1, torch.tensor_split(x, 3, 1)[2] * 2, x.split(16, 0)[0] * 2, "
        "torch.hsplit(y, (2, -3))[1] + 1, torch.vsplit(y, 2)[1] * 2, torch.meshgrid(w, x[:, 0], indexing='xy')[0] + 1"
    ),
    "joined in further ways": (
        "torch.dstack((x, y)), torch.column_stack((x, y[:, 0])), torch.block_diag(x[:2], w), "
        "torch.cartesian_prod(w, x[0]), x.repeat(9, 1), torch.roll(x, 5), torch.repeat_interleave(x, 2), "
        "torch.diff(x, prepend=y[:, :1])"
    ),
    "numbers that follow the sizes": (
        "torch.roll(x, (C // 2, -(R // 3)), (1, 0)), x[:, -(C // 2):] * 2, x[:, C // 2], F.pad(x, (-(C // 2), 1)), "
        "torch.diagonal(x, C // 3), torch.diagonal(x, -(R // 4)), x.unfold(1, C // 2, C // 4).sum(-1), "
        "x.sum() / (x[None].size(0) * x[None].size(1) * x[None].size(2))"
    ),
    "patches with edges": (
        "F.unfold(x[None, None], 3, padding=1), F.unfold(y[None, None], (3, 2), dilation=2, stride=(1, 2), padding=2), "
        "F.fold(F.unfold(x[None, None], 2, stride=2) * 2, x.shape, 2, stride=2), "
        "F.fold(F.unfold(y[None, None], 3, padding=1), y.shape, 3, padding=1)"
    ),
    "resampled": (
        "F.interpolate(x[None], scale_factor=1.5), F.interpolate(x[None, None], size=(7, 40), mode='nearest-exact'), "
        "F.interpolate(x[None, None], scale_factor=0.5, mode='bicubic'), "
        "F.interpolate(y[None, None], size=(9, 40), mode='bicubic', align_corners=True), "
        "F.grid_sample(x[None, None], torch.stack((u, y), -1)[None]), F.grid_sample(x[None, None], torch.stack((x, u), "
        "-1)[None], mode='nearest', padding_mode='border', align_corners=True), "
        "F.affine_grid(x[None, :2, :3], (1, 1, *y.shape), align_corners=False)"
    ),
    "written at places": (
        "torch.zeros_like(x).scatter(1, j[:, :1], 1.0), x.scatter(0, j[:4] % 4, y[:4]), "
        "x.scatter(1, j[:, :5], y, reduce='add'), x.scatter(1, j[:, :2], y, reduce='multiply'), "
        "x.scatter_add(1, j[:, :5], y), "
        "x.scatter(1, j[:2, :1], 3.0), torch.zeros_like(x).scatter_reduce(1, j[:, :5], y, 'amax'), "
        "x.index_add(0, j[:6, 0], y[:6], alpha=0.5), x.index_copy(0, torch.arange(3), y[:3]), "
        "x.index_fill(1, j[0, :3], 2.0), torch.select_scatter(x, w, 0, -1), "
        "torch.slice_scatter(x, y[:, 1:9:2], 1, 1, 9, 2), "
        "torch.index_put(x, (x < 0,), torch.tensor(0.0)), x.index_put((j[:5, 0],), y[:5], accumulate=True)"
    ),
    "losses of all kinds": (
        "F.cross_entropy(x, j[:, 0], weight=w, label_smoothing=0.1, ignore_index=3), "
        "F.cross_entropy(x, torch.softmax(y, 1), weight=w, label_smoothing=0.2), F.poisson_nll_loss(x, p), "
        "F.poisson_nll_loss(p, p * 3, log_input=False, full=True, reduction='none'), "
        "F.multi_margin_loss(x, j[:, 0], p=2, margin=0.5, weight=w), F.triplet_margin_loss(x, y, p, p=3)"
    ),
    "keys of one head for all": (
        "F.scaled_dot_product_attention(torch.stack((x, y))[None], p[None, None], y[None, None])"
    ),
    "one in each row": "F.one_hot(j, 9) * 2, torch.diag_embed(x), x @ y.t() + torch.eye(x.shape[0])",
    "among others": (
        "torch.bucketize(x, torch.linspace(-2, 2, 9)), torch.bucketize(x, torch.linspace(-2, 2, 20), out_int32=True), "
        "torch.searchsorted(torch.cumsum(p, 1), y, right=True), "
        "torch.isin(i, torch.tensor([1, 2, 3])), x * torch.tensor([[0.5], [2.0]]).repeat(R // 2, 1), "
        "torch.isin(j, 4, invert=True)"
    ),
    "products of all kinds": (
        "F.bilinear(x, y, torch.stack((u[:, :1] * w, y[:, :1] * w))[:, : x.shape[1]]), torch.inner(x, y), "
        "torch.vdot(w, x[0]), torch.addmv(x[:, 0], x, w), torch.addbmm(y @ y.t(), x[None], y.t()[None], beta=0.5), "
        "torch.addr(x, y[:, 0], w, alpha=2.0), torch.kron(x[:2], w), torch.linalg.cross(x[:, :3], y[:1, :3]), "
        "torch.einsum('ii->i', (x @ y.t()) / 8), torch.matrix_power((x @ y.t()) / 64, 3)"
    ),
    "sums so far of what is alike": (
        "(~torch.zeros((R, 5, 9), dtype=torch.bool)).cumsum(1, dtype=torch.float32), torch.ones_like(i).cumsum(0) + j, "
        "(x[:, :1] * 2).expand(-1, 7).cumsum(1), torch.prod(torch.tensor([3, 3, 3, 3, 3])) * x, "
        "x[:, :1].expand(-1, 6).prod(1) + y[:, 0]"
    ),
    "statistics put together": (
        "torch.cat((x.mean(1), (x * x).mean(1) - x.mean(1) ** 2)), "
        "torch.cat((y.amax(0), y.amin(0), y.sum(0) * 2), -1), "
        "torch.cat((x.sum(1, keepdim=True), y.amax(1, keepdim=True)), 1)"
    ),
    "sums of nothing": (
        "F.linear(x[:, :0], y[:, :0]) + 1, x[:, :0].sum(1) + y.sum(1), torch.prod(x[:0], 0) * y, "
        "F.linear(F.relu(F.linear(x, y[:0])), y[:, :0]).sigmoid() * y[:, :1]"
    ),
    "norms of all kinds": (
        "torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, ord=1), torch.linalg.norm(x, ord=-torch.inf), "
        "torch.renorm(x, 2, 0, 1.0), torch._weight_norm(x, y[:, :1], 0), F.pairwise_distance(x, y, p=3.0), "
        "torch.nanmean(x, 1), torch.trapezoid(x, dx=0.5), torch.trapezoid(x, w), torch.ldexp(x, j), "
        "torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), "
        "torch.special.entr(p), torch.special.xlog1py(x, p)"
    ),
    "made of other operations": (
        "torch.gradient(x, dim=1)[0], torch.gradient(x, spacing=0.5)[1], torch.cumulative_trapezoid(x, dim=1), "
        "torch.mvlgamma(p + 3, 2), torch.special.ndtr(x), torch.diagflat(w[:5]), torch.linalg.vecdot(x, y), "
        "torch.nanquantile(x, 0.3, dim=1), torch.row_stack([x, y]), "
        "torch.nn.utils.rnn.pad_sequence([x[:3], y], batch_first=True)"
    ),
    "samples of a reflected image": (
        "F.grid_sample(x[None, None], torch.stack((x, y), -1)[None] * 3, padding_mode='reflection'), "
        "F.grid_sample(y[None, None], torch.stack((x, y), -1)[None] * 2, 'bilinear', 'reflection', align_corners=True),"
        " F.grid_sample(y[None, None, :, :1], torch.stack((y, x), -1)[None], 'bilinear', 'reflection', "
        "align_corners=True)"
    ),
    "whole numbers of few bits": (
        "((i * 20).to(torch.int8) + i.to(torch.int8) * 9).float() * 0.5, (i.to(torch.uint8) - 7).float() + x, "
        "(i.to(torch.int32) * 200000000).double() * 2, ((i.to(torch.int16) << 11) // 3).float(), "
        "((i * 7).to(torch.int8) @ i[0].to(torch.int8)).float(), "
        "(-(i * 99).to(torch.int8)).long() + j, (i.to(torch.uint8) * j.to(torch.uint8)).amax(1).float()"
    ),
    "in other words": (
        "F.embedding_bag(j, x), F.embedding_bag(j[:, :5], y, mode='max'), "
        "F.embedding_bag(j, y, mode='sum', per_sample_weights=x), F.gaussian_nll_loss(x, y, p), "
        "F.gaussian_nll_loss(x, y, p[:, 0], full=True, reduction='none'), torch.cov(x), torch.corrcoef(y)"
    ),
    "pooled and put back": (
        "F.max_unpool2d(*F.max_pool2d(x[None, None], 2, return_indices=True), 2), "
        "F.max_unpool1d(*F.max_pool1d(y[None], 2, return_indices=True), 2)"
    ),
    "products of whole numbers": (
        "i @ i.t(), (i * 7).to(torch.int8) @ i.t().to(torch.int8), (i.long() * 10**9)[None] @ i.long().t()[None], "
        "i @ i[0], torch._int_mm(i.to(torch.int8), i.t().to(torch.int8)).float() * 0.5 + x[:, :1]"
    ),
}
"""Of these the naive kernels are run: what is special about them is a value's formula."""
RECURRENT = {
    "rnn": "torch.rnn_tanh_cell(x, y, u, p, w, w), torch.rnn_relu_cell(x, y, u, p)",
    "gru": "torch.gru_cell(x, y, torch.cat((x, y, u)), torch.cat((y, u, x)), w.repeat(3), w.repeat(3))",
    "lstm": "*torch.lstm_cell(x, (y, u), torch.cat((x, y, u, p)), torch.cat((y, u, x, p)), w.repeat(4), w.repeat(4)),",
}
"""One step of each: the state is as wide as the input."""


def case(results: str, sizes: dict[str, int], awkward: dict[str, int]) -> Problem:
    used = {name: drawn for name, drawn in INPUTS.items() if f"{name}" in results}
    made = problem(f"({results})", sizes, awkward, **used)
    special = [Workload(str(kind), WorkloadRole.EMULATOR, awkward, kind) for kind in (Values.NAN, Values.INFINITE)]
    return replace(made, workloads=(*made.workloads, *special))


def test_every_pointwise_operation_has_a_rule() -> None:
    pointwise = {name for name, traits in OPERATIONS.items() if traits.flow in (Flow.POINTWISE, Flow.CHANNELWISE)}
    assert pointwise - {*RULES, *UNARY, *BINARY} == NO_RULE


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_operations_are_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(POINTWISE[name], {"R": 6, "C": 32}, {"R": 5, "C": 13})
    naive = variants_of(made, shared, tmp_path)[:1]
    assert_right(made, naive, made.workloads[1:], shared, tmp_path)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_numbers_meet_as_in_pytorch(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(KINDS[name], {"R": 6, "C": 32}, {"R": 5, "C": 13})
    naive = variants_of(made, shared, tmp_path)[:1]
    assert_right(made, naive, made.workloads[1:2], shared, tmp_path)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", [*list(OTHERS)[:-1], pytest.param("the largest of a row", marks=pytest.mark.thorough)])
def test_other_operations_are_right(name: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    """Try the first kernel of each operation on awkward sizes; or the first one and the last on both."""
    made = case(OTHERS[name], {"R": 32, "C": 32}, {"R": 18, "C": 18})
    first, *_, last = variants_of(made, shared, tmp_path)
    kernels, workloads = ((first, last), made.workloads[:2]) if every else ((first,), made.workloads[1:2])
    assert_right(made, kernels, workloads, shared, tmp_path)


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", FORMS)
def test_further_forms_are_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(FORMS[name], {"R": 32, "C": 32}, {"R": 18, "C": 18})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[1:2], shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", RECURRENT)
def test_a_step_of_a_recurrent_network_is_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(RECURRENT[name], {"R": 32, "C": 32}, {"R": 18, "C": 18})
    first, *_ = variants_of(made, shared, tmp_path)
    assert_right(made, (first,), made.workloads[:2], shared, tmp_path)


@pytest.mark.parametrize("which", [0, pytest.param(-1, marks=pytest.mark.thorough)], ids=["first", "last"])
def test_a_size_that_only_results_have_is_theirs(which: int, shared: SharedTools, tmp_path: Path) -> None:
    """A plan knows it by the result's shape, where no input and no number of the module has it."""
    image = "F.interpolate(x[None, None], size=(K, 2 * K), mode='bilinear', align_corners=True)[0]"
    forward = f"{image}, x[:, :1] * torch.arange(K)"
    made = problem(forward, {"N": 12, "K": 24}, {"N": 7, "K": 9}, x="torch.randn(N, N)")
    assert_right(made, [variants_of(made, shared, tmp_path)[which]], made.workloads, shared, tmp_path)


def test_parts_of_which_nothing_is_left_are_not_launched(shared: SharedTools, tmp_path: Path) -> None:
    results = (
        "torch.cat((x, y), 1)[:, 3:-2] * 2, torch.diagonal(x + y, -3), torch.cumsum(x, 1)[:, 1:-1], x + 1, "
        "x[:, 5:].exp(), torch.slice_scatter(x, y[:, 3:], 1, 3, 8)"
    )
    made = case(results, {"R": 6, "C": 8}, {"R": 1, "C": 1})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_a_roll_by_whole_turns_at_some_sizes_is_right(shared: SharedTools, tmp_path: Path) -> None:
    results = "x.roll(8, 1), x.roll(-16, 1) + 1, x.roll((6, 3), (0, 1)).sum(1), y.roll(48)"
    made = case(results, {"R": 6, "C": 8}, {"R": 4, "C": 12})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_a_variance_of_fewer_elements_than_its_correction_is_none(shared: SharedTools, tmp_path: Path) -> None:
    made = case("torch.var(x, 1, correction=3), x.std(0, correction=2.5)", {"R": 6, "C": 8}, {"R": 1, "C": 2})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_a_norm_of_small_halves_has_the_epsilon_of_floats(shared: SharedTools, tmp_path: Path) -> None:
    made = problem("F.rms_norm(x, (C,))", {"R": 6, "C": 8}, {"R": 5, "C": 9}, x="(torch.randn(R, C) / 1024).bfloat16()")
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_places_to_fill_count_from_both_ends(shared: SharedTools, tmp_path: Path) -> None:
    results = "x.index_fill(1, torch.arange(4) - 2, 2.0), x.index_fill(0, torch.tensor(-1), 0.5)"
    made = case(results, {"R": 6, "C": 8}, {"R": 5, "C": 9})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_where_a_thread_has_no_element_it_divides_and_shifts_nothing(shared: SharedTools, tmp_path: Path) -> None:
    """Take rows that are no whole number of vectors: a thread computes with zeros behind their end."""
    whole = "torch.div(i, j, rounding_mode='trunc')"
    results = (
        f"(i // j).cumsum(1), (i % j).cumsum(1), {whole}.sum(1), torch.fmod(i, j).sum(1), (i << (j - 1)).cumsum(1)"
    )
    made = case(results, {"R": 6, "C": 16}, {"R": 5, "C": 13})
    assert_right(made, variants_of(made, shared, tmp_path)[-1:], made.workloads[1:2], shared, tmp_path)


def test_shifts_by_more_bits_than_there_are_leave_what_pytorch_does(shared: SharedTools, tmp_path: Path) -> None:
    results = "i << 64, i >> 70, i << (j * 30 - 60), i >> (j * 30 - 60), i.int() << 33, i.to(torch.int8) >> (j - 3)"
    made = case(results, {"R": 6, "C": 16}, {"R": 5, "C": 13})
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[1:2], shared, tmp_path)


def test_a_cosine_is_along_a_dimension_of_both_together(shared: SharedTools, tmp_path: Path) -> None:
    drawn = {"x": "torch.randn(3, R, C)", "y": "torch.randn(R, C)"}
    results = "F.cosine_similarity(x, y, dim=1), F.cosine_similarity(y, y[:, :1], dim=1)"
    made = problem(results, {"R": 6, "C": 6}, {"R": 5, "C": 9}, **drawn)
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


def test_what_is_added_times_0_may_be_no_number(shared: SharedTools, tmp_path: Path) -> None:
    none = "torch.full((R, C), float('nan'))"
    results = (
        "torch.addmm(n, x, y.t(), beta=0), torch.addr(n, x[:, 0], x[0], beta=0), torch.addmv(n[0], x, y[0], beta=0)"
    )
    drawn = {"n": none, "x": "torch.randn(R, C)", "y": "torch.randn(R, C)"}
    made = problem(results, {"R": 8, "C": 8}, {"R": 5, "C": 5}, **drawn)
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[:2], shared, tmp_path)


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("x.split(4, 1)[-1].sum()", "a piece whose number changes with the sizes"),
        ("x.half().topk(2)[1]", "result 1 of 'topk'"),
        (
            "x * torch.arange(C).roll(1) * torch.tensor([1.0 / C] * 2)[0]",
            "the number 0.125, which changes with the sizes",
        ),
        ("torch.cumsum(x.sum(), 0)", "'aten.cumsum' of one number"),
        ("torch.zeros_like(i).scatter_reduce(0, i.abs() % 6, i, 'amax')", "'aten.scatter_reduce' of int64 by amax"),
        ("F.pad(x[None], (2, -9), mode='replicate')", "padding that leaves nothing of its operand"),
        ("F.interpolate(i[None, None].to(torch.uint8), scale_factor=2, mode='bilinear')", "bilinear2d' of uint8"),
        ("x.view(torch.int32)", "for which its rule has float32 instead of int32"),
        ("x.split([C, 0], 1)", "an output without elements"),
        ("F.grid_sample(x[None, None], torch.stack((x, y), -1)[None], mode='bicubic')", "samples of a grid"),
    ],
)
def test_what_has_no_kernel_is_said(forward: str, reason: str, shared: SharedTools, tmp_path: Path) -> None:
    with pytest.raises(NotInPlaybook, match=reason):
        variants_of(case(forward, {"R": 6, "C": 8}, {"R": 6, "C": 9}), shared, tmp_path)


@pytest.mark.parametrize("which", [0, pytest.param(-1, marks=pytest.mark.thorough)], ids=["first", "last"])
def test_what_is_made_8_bit_floats_is_rounded_to_them(which: int, shared: SharedTools, tmp_path: Path) -> None:
    """Values between would be nearer to float64's, but the reference says how a weight is stored."""
    import torch

    formats = (torch.float8_e4m3fn, torch.float8_e5m2)
    sizes = {"R": 5, "C": 24}
    one = problem(", ".join(f"x.to({f}).float()" for f in formats), sizes, sizes, x="torch.randn(R, C)")
    assert_right(one, [variants_of(one, shared, tmp_path)[which]], one.workloads[:1], shared, tmp_path)
    for k, dtype in enumerate(formats):
        stored = torch.frombuffer(bytearray((tmp_path / f"out{k}.out").read_bytes()), dtype=torch.float32)
        assert torch.equal(stored, stored.to(dtype).float())
