"""Apply `correctness`'s rule on the GPU: the same formula, in chunks, for outputs of gigabytes.

`correctness` documents the allowed error per element and the handling of NaN and Inf; the tests compare both
implementations. That module also describes a wrong output, from a part small enough for the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import EPSILON, OutputValues, Precision
from cutegen_core.judge.small_floats import FLOAT8, FLOAT16, ROUNDED
from cutegen_core.records.problem import Tolerance
from cutegen_core.records.trial import Comparison, Mismatch

_CHUNK = 1 << 24
_LOOKED_AT = 1 << 22
_FIRST = 8


@dataclass(frozen=True)
class RightElements:
    """Holds what is right at some elements of one output, flat.

    Attributes:
        want: the reference in float64 (integers: as that run gave them).
        declared: the reference at the declared precision; None if `want` is only available there.
        rows: the mean magnitude of each element's row (`row_means`); None where nothing depends on it.
    """

    want: torch.Tensor
    declared: torch.Tensor | None = None
    rows: torch.Tensor | None = None

    def part(self, where: slice | torch.Tensor) -> RightElements:
        """Return what is right at these positions."""
        declared, rows = (None if t is None else at(t, where) for t in (self.declared, self.rows))
        return RightElements(at(self.want, where), declared, rows)


@dataclass(frozen=True)
class Elements:
    """Some elements of one output, flat.

    Attributes:
        got: the kernel's values.
        answers: what is right: what PyTorch answers itself, then more where the reference does not define a single one.
    """

    got: torch.Tensor
    answers: tuple[RightElements, ...]

    @property
    def want(self) -> torch.Tensor:
        """Return what PyTorch answers itself."""
        return self.answers[0].want

    def part(self, where: slice) -> Elements:
        """Return the elements at these positions."""
        return Elements(self.got[where], tuple(one.part(where) for one in self.answers))


@dataclass(frozen=True)
class OutputRule:
    """Tolerance and precision that judge an output of one dtype; `precision` is None if it was not measured."""

    dtype: str
    tolerance: Tolerance
    precision: Precision | None


@dataclass
class _Sums:
    """Sums over chunks."""

    wrong: int = 0
    max_abs_error: float = 0.0
    error_ratio: float = 0.0
    nan: int = 0
    inf: int = 0
    poison: int = 0


def measure(want: torch.Tensor, declared: torch.Tensor, dtype: str = "") -> Precision:
    """Measure the reference's own error and scale, as `correctness.measure` does."""
    own = scale = total = 0.0
    for at in range(0, want.numel(), _CHUNK):
        exact, rounded = (t.reshape(-1)[at : at + _CHUNK].double() for t in (want, declared))
        exact = _saturate(dtype, exact)
        own = max(own, float((_finite_error(rounded, exact) - _rounding(dtype, exact)).max()))
        finite = _finite_or_zero(exact).abs()
        scale = max(scale, float(finite.max()))
        total += float(finite.square().sum()) if dtype in FLOAT16 else 0.0
    return Precision(own, scale, (total / want.numel()) ** 0.5 if total else 0.0)


def row_means(want: torch.Tensor, dtype: str) -> torch.Tensor | None:
    """Return the mean magnitude of each element's row, flat; None where the rule of the type does not ask for it."""
    if dtype not in FLOAT16 or want.ndim < 2 or want.numel() == 0:
        return None
    means = _finite_or_zero(want).abs().mean(dim=-1, keepdim=True, dtype=torch.float64)
    return means.expand(want.shape).reshape(-1)


def wrong(elements: Elements, rule: OutputRule) -> torch.Tensor:
    """Return a mask of the wrong elements."""
    return ratio(elements, rule) > 1.0


def ratio(elements: Elements, rule: OutputRule) -> torch.Tensor:
    """Return error / allowed error; infinite where a NaN, an Inf or an integer is not the expected one."""
    return reduce(torch.minimum, (_ratio(elements.got, answer, rule) for answer in elements.answers))


def _ratio(got: torch.Tensor, answer: RightElements, rule: OutputRule) -> torch.Tensor:
    want, declared = answer.want, answer.declared
    if rule.dtype not in EPSILON:
        same = got == want
        if declared is not None:
            same |= got == declared
        return _zero_or_inf(same)
    got, unbounded = got.double(), want.double()
    want = _saturate(rule.dtype, unbounded)
    error = (_finite_or_zero(got) - _finite_or_zero(want)).abs()
    allowed = _allowed(want, rule, answer.rows)
    quotient = torch.where(error == 0.0, 0.0, error / allowed)
    special = ~(torch.isfinite(got) & torch.isfinite(want))
    same = _same_special(got, want) | _is_overflow(rule.dtype, got, unbounded, allowed)
    if declared is not None:
        rounded = declared.double()
        overflows = ~torch.isfinite(rounded) & torch.isfinite(unbounded)
        same |= overflows & _same_special(got, rounded)
        same |= overflows & torch.isnan(rounded) & ~torch.isfinite(got)
    return torch.where(special, _zero_or_inf(same), quotient)


def compare(output: str, elements: Elements, shape: tuple[int, ...], rule: OutputRule, poison: int) -> Comparison:
    """Judge a whole output.

    Args:
        poison: byte that filled the output before the kernel ran.
    """
    sums, total = _Sums(), elements.got.numel()
    marked = torch.zeros(total, dtype=torch.bool, device=elements.got.device)
    for at in range(0, total, _CHUNK):
        _add(sums, marked[at : at + _CHUNK], elements.part(slice(at, at + _CHUNK)), rule, poison)
    found = Comparison(
        output=output, shape=shape, wrong=sums.wrong, total=total, max_abs_error=sums.max_abs_error,
        error_ratio=sums.error_ratio, reference_error=rule.precision.own if rule.precision else 0.0,
        nan=sums.nan, inf=sums.inf, poison=sums.poison,
        widening=correctness.widening(rule.dtype, rule.tolerance, rule.precision),
    )  # fmt: skip
    return _describe(found, elements, marked, rule, poison) if sums.wrong else found


def _add(sums: _Sums, marked: torch.Tensor, elements: Elements, rule: OutputRule, poison: int) -> None:
    ratios = ratio(elements, rule)
    bad = ratios > 1.0
    marked.copy_(bad)
    untouched = _untouched(elements.got, poison)
    got = elements.got.double() if rule.dtype in EPSILON else elements.got
    sums.wrong += int(bad.sum())
    sums.error_ratio = max(sums.error_ratio, float(ratios.max()))
    sums.max_abs_error = max(
        sums.max_abs_error,
        float(_finite_error(elements.got.double(), _saturate(rule.dtype, elements.want.double())).max()),
    )
    sums.poison += int((bad & untouched).sum())
    sums.nan += int((bad & torch.isnan(got) & ~untouched).sum())
    sums.inf += int((bad & torch.isinf(got)).sum())


def _describe(found: Comparison, elements: Elements, marked: torch.Tensor, rule: OutputRule, poison: int) -> Comparison:
    """Add the positions and the pattern of the wrong elements, from the part of the output around the first one."""
    columns = found.shape[-1] if len(found.shape) > 1 else found.total
    first = _positions(marked)
    seen, shape = _choose_part(first[0], columns, found)
    part = elements.part(seen)
    got, want = _array(part.got, shape), _array(part.want, shape)
    bad, untouched = _array(marked[seen], shape), _array(_untouched(part.got, poison), shape)
    text = correctness.describe_mismatch(OutputValues(got, want, None, untouched), bad, rule.tolerance)
    whole = shape == found.shape
    return replace(
        found,
        first=_first(first, elements, found.shape),
        heatmap=_heatmap(marked.reshape(-1, columns)),
        pattern=text if whole or not text else f"in the part looked at: {text}",
    )


def _choose_part(first: int, columns: int, found: Comparison) -> tuple[slice, tuple[int, ...]]:
    """Choose at most `_LOOKED_AT` elements around the wrong one at `first`, and return them with their shape.

    The part is the whole output, some of its rows, or a piece of one row.
    """
    if found.total <= _LOOKED_AT:
        return slice(0, found.total), found.shape
    if columns > _LOOKED_AT:
        row, place = divmod(first, columns)
        begin = row * columns + place // _LOOKED_AT * _LOOKED_AT
        end = min(begin + _LOOKED_AT, (row + 1) * columns)
        return slice(begin, end), (end - begin,)
    rows = _LOOKED_AT // columns
    begin = first // columns // rows * rows * columns
    end = min(begin + rows * columns, found.total)
    return slice(begin, end), ((end - begin) // columns, columns)


def _heatmap(table: torch.Tensor) -> tuple[tuple[float, ...], ...]:
    """Return `correctness.heatmap`, computed on the device; only the cells' shares leave it."""
    down, across = (correctness.cell_edges(extent).tolist() for extent in table.shape)
    shares = [
        table[top:bottom, left:right].mean(dtype=torch.float64)
        for top, bottom in pairwise(down)
        for left, right in pairwise(across)
    ]
    numbers = torch.stack(shares).reshape(len(down) - 1, len(across) - 1).tolist()
    return tuple(tuple(row) for row in numbers)


def _positions(marked: torch.Tensor) -> list[int]:
    """Return the first few wrong elements; there is at least one."""
    for at in range(0, marked.numel(), _CHUNK):
        part = marked[at : at + _CHUNK]
        if part.any():
            begin = int(part.int().argmax())
            found = torch.nonzero(part[begin : begin + _LOOKED_AT]).reshape(-1)[:_FIRST]
            return [at + begin + int(position) for position in found]
    return []


def _first(positions: list[int], elements: Elements, shape: tuple[int, ...]) -> tuple[Mismatch, ...]:
    found = []
    for position in positions:
        index, rest = [], position
        for extent in reversed(shape):
            index.append(rest % extent)
            rest //= extent
        numbers = (_number(values[position]) for values in (elements.got, elements.want))
        found.append(Mismatch(tuple(reversed(index)), *numbers))
    return tuple(found)


def _number(value: torch.Tensor) -> int | float:
    return float(value) if value.is_floating_point() else int(value)


def _array(flat: torch.Tensor, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - numpy array
    return (flat.double() if flat.is_floating_point() else flat).reshape(shape).cpu().numpy()


def _allowed(want: torch.Tensor, rule: OutputRule, rows: torch.Tensor | None) -> torch.Tensor:
    close = rule.tolerance.atol + rule.tolerance.rtol * _finite_or_zero(want).abs()
    if rule.precision is None:
        return close + _rounding(rule.dtype, want)
    limits = correctness.error_limits(rule.dtype, rule.tolerance, rule.precision)
    most = (limits.share * _finite_or_zero(want).abs()).clamp(min=limits.most)
    if rows is not None:
        most = torch.maximum(most, limits.of_row * rows)
    return torch.minimum(close.clamp(min=limits.least), most) + _rounding(rule.dtype, want)


def _rounding(dtype: str, want: torch.Tensor) -> torch.Tensor:
    """Return what the rounding of an output of few bits costs at each value (`small_floats.half_units`), else zeros."""
    kind = ROUNDED.get(dtype)
    if kind is None:
        return torch.zeros_like(want)
    bounded = _finite_or_zero(want).abs().clamp(2.0**kind.lowest, kind.largest)
    return torch.ldexp(torch.full_like(want, 0.5), torch.frexp(bounded)[1] - 1 - kind.mantissa)


def _saturate(dtype: str, want: torch.Tensor) -> torch.Tensor:
    float8 = FLOAT8.get(dtype)
    return want if float8 is None else want.clamp(-float8.largest, float8.largest)


def _is_overflow(dtype: str, got: torch.Tensor, want: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Apply the rule of `correctness`."""
    float8 = FLOAT8.get(dtype)
    beyond = want.abs() + (0.0 if float8 else allowed) >= correctness.OVERFLOWS_FROM[dtype]
    has_infinity = float8 is None or float8.infinity
    said = torch.isinf(got) & (got.sign() == want.sign()) if has_infinity else torch.isnan(got)
    return beyond & said


def _untouched(got: torch.Tensor, poison: int) -> torch.Tensor:
    raw = got.contiguous().view(torch.uint8).reshape(got.numel(), got.element_size())
    return (raw == poison).all(dim=1)


def at(flat: torch.Tensor, where: slice | torch.Tensor) -> torch.Tensor:
    """Return the elements at these positions; torch does not index every dtype of one byte."""
    if isinstance(where, slice) or flat.element_size() > 1:
        return flat[where]
    return flat.view(torch.uint8)[where].view(flat.dtype)


def _zero_or_inf(same: torch.Tensor) -> torch.Tensor:
    return torch.where(same, 0.0, torch.inf).double()


def _same_special(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(left) & torch.isnan(right)) | (torch.isinf(left) & (left == right))


def _finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(values), values, 0.0)


def _finite_error(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    both = torch.isfinite(left) & torch.isfinite(right)
    return torch.where(both, left - right, 0.0).abs()
