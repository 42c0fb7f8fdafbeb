"""Further lines that a program drawn at random may have: what they compute of a tensor, and in which shape.

In a form {x} is the tensor, {y} one that broadcasts with it, {same} one of its shape, {weight} a matrix of seven
columns, {whole} whole numbers in its shape, {k} one of its dimensions and {dim} that one's extent, {row} five places
along it, {places} in its shape places along the last one. Lines before the last one end in "; "; `made` is what the
last one names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Dims = tuple[str, ...]
Shape = Callable[[Dims, int], Sequence[str]]


class Form(NamedTuple):
    """A form for tensors of `least` to `most` dimensions; `dims` returns its shape, given the tensor's and {k}."""

    code: str
    dims: Shape
    least: int
    most: int


def _forms(dims: Shape, *codes: str, least: int = 1, most: int = 5) -> list[Form]:
    return [Form(code, dims, least, most) for code in codes]


def _same(dims: Dims, _: int) -> Dims:
    return dims


def _without(dims: Dims, k: int) -> Dims:
    return (*dims[:k], *dims[k + 1 :])


def _single(dims: Dims, k: int) -> Dims:
    return (*dims[:k], "1", *dims[k + 1 :])


def _with(extent: str) -> Shape:
    """Return the shape with dimension {k} of another extent: {0} is the one it had."""
    return lambda dims, k: (*dims[:k], extent.format(dims[k]), *dims[k + 1 :])


def _last(*extents: str) -> Shape:
    """Return the shape with other extents for the last dimension: {0} is the one it had."""
    return lambda dims, _: (*dims[:-1], *(extent.format(dims[-1]) for extent in extents))


_POSITIONS = "torch.arange({x}.shape[-1], device={x}.device)"
FORMS: Sequence[Form] = (
    *_forms(
        _same,
        "torch.cumprod({x}.tanh(), {k})",
        "torch.logcumsumexp({x}, {k}) / 4",
        "{x}.cummin({k})[0]",
        "{x} / ({x}.abs().max() + 1)",
        "{x} * {x}.mean()",
        "torch.nan_to_num({x} - {y}, 0.0, 2.0, -2.0)",
        "torch.clamp({x}, max={y})",
        "F.threshold({x}, 0.1, -1.0)",
        "F.hardshrink({x}, 0.3)",
        "F.elu({x}) * {y}.sigmoid()",
        "torch.hypot({x}, {y})",
        "torch.sub({x}, {y}, alpha=2)",
        "torch.addcdiv({x}, {y}, {y}.abs() + 1)",
        "torch.rsub({x}, 1)",
        "{x} * {same}.sum({k}, keepdim=True) / 8",
        f"{{x}} * {_POSITIONS} / 32",
        f"torch.where({_POSITIONS} < {{x}}.shape[-1] // 2, {{x}}, {{y}})",
        "{x}.sort({k})[0]",
        "F.softmax({x} * {y}, {k}).cumsum({k})",
        "{x} - {x}.amin({k}, keepdim=True)",
        "torch.xlogy({x}, {y}.abs() + 1)",
        "({x} - {x}.mean({k}, keepdim=True)) * torch.rsqrt({x}.var({k}, correction=0, keepdim=True) + 0.1)",
        "torch.heaviside({x}, {y})",
        "torch.logical_and({x} > 0, {y} > 0).to({x}.dtype) * {x}",
        "F.prelu({x}, {y}.mean()[None])",
        "torch.where(torch.isfinite({x} / {y}.clamp(min=0.1)), {x}, {y})",
        "torch.where(({x} > {x}.mean({k}, keepdim=True)) & ({y} < 0.5), {x}, {y})",
        "torch.ldexp({x}, torch.tensor(1))",
    ),
    # Writes to a part of a copy, and changes in place.
    *_forms(
        _same,
        "made = {x}.clone(); made[..., 1:] = 0.5; made * 2",
        "made = {x} * 1; made[..., ::2] *= 2; made.tanh()",
        "made = {x}.clone(); made[..., 0] = made[..., -1]; made + {y}",
        "made = {x} + 0; made[made > 0.5] = 0.25; made",
        "made = {x}.clone(); made[..., :-1] += {x}[..., 1:]; made",
        "{x}.clone().mul_({y}).clamp_(min=-1)",
        "made = {x}.clone(); made[..., 2:5] = {y}[..., :1].mean(); made.cumsum({k}) / 4",
        "made = torch.zeros_like({x}); made[..., 1:-1] = {x}[..., :-2]; made - {x}",
        "made = {x}.clone(); made.masked_fill_({x} > 0, 1.5); made * {x}",
        "made = torch.empty_like({x}); made[..., ::2] = {x}[..., ::2]; made[..., 1::2] = -{x}[..., 1::2]; made * 1",
    ),
    *_forms(
        _same,
        "made = {x}.clone(); made[..., 0, :] = {x}[..., -1, :]; made * 2",
        "{x}.renorm(2, {k}, 1.0)",
        "{x}.masked_fill(torch.ones_like({x}) > 2, 0)",
        "made = {x}.clone(); made.transpose(-1, -2)[..., 0] = 1; made.exp() / 8",
        "{x} * torch.tril(torch.ones({x}.shape[-2], {x}.shape[-1], device={x}.device)).to({x}.dtype)",
        "{x} + torch.eye({x}.shape[-2], {x}.shape[-1], device={x}.device).to({x}.dtype)",
        least=2,
    ),
    # Whole numbers.
    *_forms(
        _same,
        "{x} * ({whole} % 4).to({x}.dtype)",
        "{x} + ({whole} // 3).to({x}.dtype)",
        "torch.where({whole} > 2, {x}, {x} * 0.5)",
        "{x} * (({whole} >> 1) & 3).to({x}.dtype)",
        "{x} + {whole}.cumsum({k}).to({x}.dtype) / 64",
        "{x} * ({whole}.amax({k}, keepdim=True) - {whole}).to({x}.dtype) / 8",
        "{x} + {whole} / 4",
        "{x} - ({whole} == {whole}.amin({k}, keepdim=True)).to({x}.dtype)",
        "{x} * {whole}.sign() + {whole}.abs()",
        "{x} + ({whole} ^ 5).clamp(-3, 3) / 2",
        "({x} + torch.remainder({whole}, 3)) / torch.pow({whole}.float().abs() + 1, 2)",
        "{x} * torch.div({whole}, 2, rounding_mode='trunc').to({x}.dtype)",
        "{x} * (~({whole} > 0)).to({x}.dtype)",
        "{x} * torch.bitwise_and({whole}, 1).bool().to({x}.dtype)",
        "{x} + ({same}.clamp(-9, 9) * 4).to(torch.int32).to({x}.dtype) / 4",
    ),
    *_forms(
        _without,
        "({x} > {y}).sum({k}).to({x}.dtype) / 8",
        "({x} > 0.1).any({k}).to({x}.dtype)",
        "({x} > -1).all({k}).to({x}.dtype)",
        "{x}.argmin({k}).to({x}.dtype) / 16",
        "{whole}.sum({k}).to({x}.dtype) / 16",
        "{x}.prod({k}).tanh()",
        "torch.count_nonzero({x} > 0.5, {k}).to({x}.dtype) / 8",
        "{x}.select({k}, -1)",
        "{x}.unbind({k})[1 % {dim}]",
        "torch.linalg.vector_norm({x}, 1, {k}) / 8",
        "torch.linalg.vector_norm({x}, float('inf'), {k})",
        "F.cosine_similarity({x}, {same}, {k})",
        "{x}.nansum({k}) / 8",
        "{x}.max({k})[0] - {x}.min({k})[0]",
        "{x}.median({k})[0]",
        "torch.logsumexp({x} + {y}, {k})",
        "(F.softmax({x}, {k}) * {same}).sum({k})",
        "{x}.aminmax(dim={k})[1]",
        "{whole}.argmax({k}).to({x}.dtype) / 16",
        "({x} * {same}).sum({k}) / 8",
        "{x}.norm(dim={k})",
    ),
    *_forms(
        _single, "{x}.narrow({k}, 0, 1)", "{x}.mean({k}, keepdim=True)", "{x}.std({k}, correction=0, keepdim=True)"
    ),
    *_forms(
        lambda *_: (),
        "{x}.sum() / 64",
        "{x}.abs().max()",
        "F.huber_loss({x}, {same})",
        "F.binary_cross_entropy_with_logits({x}, {same}.sigmoid())",
        "F.kl_div(F.log_softmax({x}, -1), F.softmax({same}, -1), reduction='sum') / 8",
        "({x} - {same}).norm() / 8",
        "F.gaussian_nll_loss({x}, {same}, {same}.abs() + 0.5)",
        "F.soft_margin_loss({x}, {same}.sign())",
        "F.triplet_margin_loss({x}, {same}, {y} + 0 * {x})",
        "{x}.var()",
        "torch.dist({x}, {same}) / 8",
    ),
    # Parts, and tensors put together.
    *_forms(
        _with("(2 * {0})"),
        "torch.cat(({x}, {same}), {k})",
        "torch.cat(({x}.relu(), {same} * {y}), {k})",
        "torch.cat(({x}, {x}.flip({k})), {k})",
    ),
    *_forms(_with("({0} // 3)"), "{x}.tensor_split(3, {k})[2]"),
    *_forms(_with("5"), "{x}.index_select({k}, {row})", "{x}.index_select({k}, {row}).softmax({k})"),
    *_forms(
        _same,
        "{x}.index_fill({k}, {row}, 0.5)",
        "{x}.index_add({k}, {row}, {x}.index_select({k}, {row}))",
        "torch.zeros_like({x}).scatter_add(-1, {places}, {same}) / 4",
        "{x}.scatter(-1, {places}, 0.5)",
        "torch.gather({x}, -1, {places})",
        "{x}.scatter_reduce(-1, {places}, {same}, 'amax')",
        "torch.take_along_dim({x}, {places}, -1)",
    ),
    *_forms(
        lambda dims, k: (*dims[:k], "2", *dims[k:]),
        "torch.stack(({x}, {same}), {k})",
        "torch.stack(({x}, {y} + 0 * {x}), {k})",
    ),
    *_forms(_last("({0} + 3)"), "F.pad({x}, (2, 1), value=0.5)", "torch.cat(({x}, {x}[..., :3]), -1)"),
    *_forms(
        _last("({0} + 3)"),
        "F.pad({x}, (2, 1), mode='reflect')",
        "F.pad({x}, (1, 2), mode='replicate')",
        "F.pad({x}, (3, 0), mode='circular')",
        least=2,
        most=3,
    ),
    *_forms(_last("{0}", "9"), "F.one_hot(({whole} % 9).long(), 9).to({x}.dtype) * {x}[..., None]", most=3),
    *_forms(
        _last("{0}", "{0}"),
        "{x}[..., None] * {x}[..., None, :]",
        "torch.diag_embed({x})",
        "({x}[..., None] - {x}[..., None, :]).abs()",
        most=3,
    ),
    *_forms(
        lambda dims, _: (*dims[:-2], dims[-1], dims[-2]),
        "torch.rot90({x}, 1, (-2, -1))",
        "{x}.mT * 2",
        "{x}.flip(-1).swapaxes(-1, -2)",
        least=2,
    ),
    *_forms(lambda dims, _: (*dims[1:], dims[0]), "{x}.movedim(0, -1)", "{x}.movedim(0, -1).contiguous() + 1"),
    *_forms(
        lambda dims, _: (dims[0], f"({' * '.join(dims[1:])})"), "{x}.flatten(1)", "{x}.flatten(1).softmax(1)", least=2
    ),
    # Products.
    *_forms(
        _last("7"),
        "{x} @ {weight} / 4",
        "torch.einsum('...k,km->...m', {x}, {weight}).relu() / 4",
        "torch.einsum('...k,km,mp->...p', {x}, {weight}, {weight}.T @ {weight}) / 64",
        "torch.tensordot({x}, {weight}, 1) / 4",
        "({x}.softmax(-1) @ {weight}).tanh()",
        "F.linear({x}, {weight}.T) / 4",
        least=2,
    ),
    *_forms(
        lambda dims, _: (*dims[:-1], dims[-2]),
        "{x} @ {same}.mT / 4",
        "F.softmax({x} @ {same}.mT / 4, -1)",
        "torch.cdist({x}, {same}) / 4",
        "torch.einsum('...mk,...nk->...mn', {x}, {same}).tril() / 4",
        "torch.tril({x} @ {x}.mT) / 8",
        least=2,
        most=4,
    ),
    *_forms(
        lambda dims, _: dims[:-1], "torch.einsum('...i,...i->...', {x}, {same}) / 4", "({x} @ {weight}).sum(-1) / 8"
    ),
    # Images.
    *_forms(
        lambda dims, _: (*dims[:2], "1", "1"),
        "F.adaptive_avg_pool2d({x}, 1)",
        "{x}.amax((2, 3), keepdim=True)",
        least=4,
        most=4,
    ),
    *_forms(
        _same,
        "{x} * F.adaptive_avg_pool2d({x}, 1).sigmoid()",
        "F.local_response_norm({x}, 3)",
        "F.avg_pool2d({x}, 3, 1, 1) - {x}",
        "F.max_pool2d({x}, 3, 1, 1) * {x}",
        "F.group_norm({x}.relu(), 1, eps=0.1)",
        least=4,
        most=4,
    ),
)
