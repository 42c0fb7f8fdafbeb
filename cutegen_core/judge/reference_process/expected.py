"""Compute the reference's expected outputs, at the declared precision and in float64.

Float64 outputs come from float64 copies of all floating tensors, with float64 as the default type. If the file cannot
run like that, only the declared precision is available; the comparison and the lint report it. TF32 and
reduced-precision reductions are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from cutegen_core.judge.reference_process.loading.live import Live, describe, out_of_memory, seed_torch
from cutegen_core.judge.reference_process.modes.each_call import EachCall
from cutegen_core.judge.reference_process.modes.each_operation import EachOperation
from cutegen_core.judge.reference_process.modes.exact import TORCH_FLOAT8, Exact, NotedExact
from cutegen_core.judge.reference_process.modes.other_choices import OtherChoices
from cutegen_core.records.errors import ProblemError

_ROUNDING = 2.0**-24
_SAME = 1e-6
"""Difference, in relation to the largest, up to which two outputs in float64 are the same answer."""
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution")
_WHOLE = ("floor", "ceil", "round", "trunc", "sign", "sgn")
"""Operations whose results are whole numbers, which no kernel rounds."""
_FILLS = ("where", "masked_fill", "index_fill", "constant_pad_nd")
"""Operations that put a number in some places."""


@dataclass(frozen=True)
class Expected:
    """Expected outputs.

    Attributes:
        declared: outputs at the declared precision.
        exact: outputs in float64, None if the file cannot run in it; `why` has the reason.
        undefined: what it makes that no one defines, or "". Whole numbers are made of what these cannot hold: of
            NaN, or of more than their largest. Squares that are added up, or products on their way, are more, or
            less, than float32 holds (`modes.exact`).
        chooses: it asks for something of which PyTorch leaves open what it answers on some values.
        others: outputs in float64 that are right, too: `find_open_choices`.
        longest_sum: elements along the longest dimension of what it adds up; 0 where that is nothing. Where there are
            products, too, the longest sum of these if it is very long, else 0.
        adds_up: it adds up numbers or products.
        takes_nan_away: it says by itself what becomes of NaN.
    """

    declared: tuple[torch.Tensor, ...]
    exact: tuple[torch.Tensor, ...] | None
    why: str = ""
    undefined: str = ""
    chooses: bool = False
    others: tuple[tuple[torch.Tensor, ...], ...] = ()
    longest_sum: int = 0
    adds_up: bool = False
    takes_nan_away: bool = False


def expect(live: Live) -> Expected:
    """Run the reference as declared, and again in float64.

    The second run gets float64 copies, has float64 as the default type, and converts to float64 wherever the reference
    converts to a narrower type.

    Raises:
        ProblemError: it cannot run as declared.
        MemoryError, RuntimeError: memory ran out (`out_of_memory`) in either run.
    """
    try:
        declared = run(live, {name: t.clone() for name, t in live.tensors.items()})
    except Exception as error:
        if out_of_memory(error):
            raise
        raise ProblemError(describe(error, live.origin)) from error
    noted = NotedExact(narrow=all(t.dtype is not torch.float64 for t in live.tensors.values()))
    try:
        exact = run_exact(live, live.tensors, noted)
    except Exception as error:
        if out_of_memory(error):
            raise
        return Expected(declared, None, describe(error, live.origin))
    if [t.shape for t in exact] != [t.shape for t in declared]:
        return Expected(declared, None, "its shapes depend on the precision")
    undefined = noted.undefined
    if noted.overflows8 and not any(t.dtype in TORCH_FLOAT8 for t in declared):  # which are judged with either
        undefined = "the reference makes 8-bit floats of what is more than these hold"
    return Expected(
        declared, exact, undefined=undefined, chooses=noted.chooses,
        longest_sum=noted.longest_sum, adds_up=noted.adds_up,
        takes_nan_away=noted.takes_nan_away,
    )  # fmt: skip


def run_exact(live: Live, tensors: Mapping[str, torch.Tensor], how: Exact | None = None) -> tuple[torch.Tensor, ...]:
    """Call the reference once on float64 copies of these tensors; errors of the file's code pass through.

    Args:
        how: converts to float64, and may note more.
    """
    torch.set_default_dtype(torch.float64)
    try:
        with how or Exact():
            return run(live, {name: _upcast(t) for name, t in tensors.items()})
    finally:
        torch.set_default_dtype(torch.float32)


def run_rounded(
    live: Live, tensors: Mapping[str, torch.Tensor], seed: int, *, in_products: bool = False
) -> tuple[torch.Tensor, ...]:
    """Call the reference in float64, with the result of every operation moved by at most a rounding of float32.

    Args:
        in_products: products are moved by two roundings of the sum of their absolute terms, as any order of the sum, or
            floats in three parts on tensor cores, may move them.

    What differs from `run_exact` is what any kernel that computes in float32 may give: where values cancel, the
    reference at its declared precision may by luck lose nothing.
    """
    with _Rounding(seed, in_products=in_products):
        return run_exact(live, tensors)


def is_exact(live: Live) -> bool:
    """Tell whether no result on the way to the outputs is rounded in the narrowest floating type of these tensors:
    whatever order a kernel computes in, it has the same."""
    floats = [t.dtype for t in live.tensors.values() if t.is_floating_point()]
    with _NotedRounding(max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)) as noted:
        run_exact(live, live.tensors)
    return not noted.met


def run_selected(live: Live, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...] | None:
    """Call the reference once in float64, its attention leaving out masked keys; None if it has no attention.

    torch adds minus infinity to their scores and multiplies their values by zero: an infinity or NaN among them becomes
    NaN, and spoils the whole row. A kernel that never reads them is right, too.
    """
    with _SelectedKeys() as selected:
        outputs = run_exact(live, tensors)
    return outputs if selected.met else None


class OpenChoices(NamedTuple):
    """Holds what PyTorch leaves open, and an output depends on.

    Attributes:
        what: it, in words.
        answers: the outputs in float64 under further choices, which are right, too.
    """

    what: str
    answers: tuple[tuple[torch.Tensor, ...], ...]


def find_open_choices(live: Live, expected: Expected) -> OpenChoices | None:
    """Call the reference in float64 under other choices than PyTorch's own, which gave `expected`.

    Returns:
        None if these outputs do not depend on such a choice.
    """
    exact = expected.exact
    if exact is None or not expected.chooses:
        return None
    answers, met = [], set[str]()
    for last in (False, True):
        with OtherChoices(last=last) as choices:
            answers.append(run_exact(live, live.tensors))
        met |= choices.met
    if all(_is_same(one, other) for answer in answers for one, other in zip(answer, exact, strict=True)):
        return None
    takers = " and ".join(sorted(met - {"cdist"}))
    what = f"which of equal elements {takers} takes" if takers else "how cdist computes"
    return OpenChoices(f"PyTorch leaves open {what}", tuple(answers))


def with_open_choices(live: Live, expected: Expected) -> Expected:
    """Add what is right, too, where PyTorch leaves open what the reference gives."""
    found = find_open_choices(live, expected)
    return replace(expected, others=found.answers) if found else expected


def run_choices(live: Live) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the outputs of the reference in its own dtypes, with the first of equal elements and with the last:
    what differs in float64 may be equal there."""
    for last in (False, True):
        with OtherChoices(last=last):
            yield run(live, dict(live.tensors))


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether outputs differ by no more than the order of a sum does, or a distance that is multiplied."""
    if one.shape != other.shape or not other.is_floating_point():
        return torch.equal(one, other)
    finite = other[torch.isfinite(other)].abs()
    atol = _SAME * float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(one, other, rtol=_SAME, atol=atol, equal_nan=True)


def run(live: Live, tensors: dict[str, torch.Tensor], seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Call the reference once on these tensors; errors of the file's code pass through."""
    seed_torch(seed)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    # Fused attention takes a row of NaN and -inf for one without keys on a CPU, and not on a GPU: the formula decides.
    with sdpa_kernel(SDPBackend.MATH):
        return tuple(t.detach().contiguous() for t in live.call(tensors))


def to_array(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the tensor as numpy array for comparisons: floats as float64, others unchanged."""
    array: np.ndarray[Any, np.dtype[Any]] = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return array


def _is_number(given: object) -> bool:
    """Return whether an operation was given a single number, as such or as a tensor."""
    if isinstance(given, torch.Tensor):
        return given.dim() == 0 and given.dtype is not torch.bool and not given.is_complex()
    return isinstance(given, int | float) and not isinstance(given, bool)


class _Rounding(EachOperation):  # type: ignore[no-untyped-call]
    """Multiplies the new float64 results of operations by random numbers within a rounding of float32 around one.

    Views, results written in place, and what is made of no floating tensor or gives whole numbers stay as they are;
    so do elements that are filled with a number.

    Args:
        in_products: as in `run_rounded`.
    """

    def __init__(self, seed: int, *, in_products: bool) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._in_products = in_products

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        made, name = func(*args, **kwargs), func.__name__.partition(".")[0]
        exact = name in _WHOLE or any(r.alias_info is not None for r in func._schema.returns)
        if exact or not any(_is_wide(given) for given in _tensors_of(args)):
            return made
        if self._in_products and name in _PRODUCTS and _is_wide(made):
            terms = func(*(g.abs() if isinstance(g, torch.Tensor) else g for g in args), **kwargs)
            assert isinstance(made, torch.Tensor)
            assert isinstance(terms, torch.Tensor)
            return made + self._draw(made) * 2 * _ROUNDING * terms
        numbers = [float(given) for given in args if name in _FILLS and _is_number(given)]
        if isinstance(made, tuple | list):
            return type(made)(self._round(one, numbers) for one in made)
        return self._round(made, numbers)

    def _round(self, made: object, numbers: Iterable[float]) -> object:
        if not _is_wide(made):
            return made
        assert isinstance(made, torch.Tensor)
        moves = self._draw(made) * _ROUNDING
        for number in numbers:
            moves.masked_fill_(made == number, 0.0)
        return made.mul_(1 + moves)

    def _draw(self, like: torch.Tensor) -> torch.Tensor:
        """Return numbers between -1 and 1."""
        return 2 * torch.rand(like.shape, generator=self._generator, dtype=torch.float64) - 1


class _NotedRounding(EachOperation):  # type: ignore[no-untyped-call]
    """Notes whether an operation is given a constant, or gives a result, that a type does not hold.

    Attributes:
        met: one did.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self.met = False

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        made = func(*args, **kwargs)
        if not self.met:
            constants = [
                torch.tensor(n, dtype=torch.float64) for n in (*args, *kwargs.values()) if isinstance(n, float)
            ]
            self.met = any(map(self._rounds, (*constants, *_tensors_of(made))))
        return made

    def _rounds(self, made: torch.Tensor) -> bool:
        return _is_wide(made) and not torch.equal(made.to(self._dtype).double().nan_to_num(), made.nan_to_num())


class _SelectedKeys(EachCall):
    """Computes `scaled_dot_product_attention` by its formula, from the keys that the mask leaves.

    Attributes:
        met: the reference has called it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met = False

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        self.met = True
        return _attend(*args, **kwargs)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,  # 0 in evaluation, and no kernel can be judged on anything else
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return the weighted values of the keys whose weight is not zero.

    A query all of whose scores are minus infinity has no such key, and zeros, as in torch.
    """
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = torch.where(attn_mask == -torch.inf, -torch.inf, scores + attn_mask)
    unseen = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.softmax(-1).masked_fill(unseen, 0.0)
    finite = value.isfinite()
    spoiled = (weights != 0).double() @ (~finite).double() > 0
    return torch.where(spoiled, weights @ value, weights @ value.where(finite, 0.0))


def _tensors_of(given: object) -> Iterator[torch.Tensor]:
    if isinstance(given, tuple | list):
        for one in given:
            yield from _tensors_of(one)
    elif isinstance(given, torch.Tensor):
        yield given


def _is_wide(given: object) -> bool:
    return isinstance(given, torch.Tensor) and given.dtype is torch.float64


def _upcast(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float64 copy of a floating tensor, a plain copy of any other."""
    return tensor.detach().to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.detach().clone()
