"""`correctness`'s rule on the GPU: the same formula, in chunks, for outputs of gigabytes.

What is allowed per element, and what a NaN or an Inf means, is written down in `correctness`; the tests hold both
against each other. A wrong output is described by that module's own words, on as much of it as the CPU looks at
quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import EPSILON, Answer, Precision
from cutegen_core.problem import Tolerance
from cutegen_core.trial import Comparison, Mismatch

_CHUNK = 1 << 24
_LOOKED_AT = 1 << 22
_FIRST = 8


@dataclass(frozen=True)
class Elements:
    """Some elements of one output, flat, four times.

    Attributes:
        got: what the kernel wrote.
        want: the reference in float64 (integers: as that run gave them).
        declared: the reference at the declared precision; None when `want` could only be computed there.
    """

    got: torch.Tensor
    want: torch.Tensor
    declared: torch.Tensor | None

    def part(self, where: slice | torch.Tensor) -> Elements:
        return Elements(self.got[where], self.want[where], None if self.declared is None else self.declared[where])


@dataclass(frozen=True)
class Rule:
    """What an output of one dtype is judged by; `precision` None: not measured."""

    dtype: str
    tolerance: Tolerance
    precision: Precision | None


@dataclass
class _Sums:
    """Added up over chunks."""

    wrong: int = 0
    max_abs_error: float = 0.0
    error_ratio: float = 0.0
    nan: int = 0
    inf: int = 0
    poison: int = 0


def measure(want: torch.Tensor, declared: torch.Tensor) -> Precision:
    """`correctness.measure`: the reference's own error and scale."""
    own = scale = 0.0
    for at in range(0, want.numel(), _CHUNK):
        exact, rounded = (t.reshape(-1)[at : at + _CHUNK].double() for t in (want, declared))
        own = max(own, float(_finite_error(rounded, exact).max()))
        scale = max(scale, float(_finite_or_zero(exact).abs().max()))
    return Precision(own, scale)


def wrong(elements: Elements, rule: Rule) -> torch.Tensor:
    """Which elements are wrong."""
    return ratio(elements, rule) > 1.0


def ratio(elements: Elements, rule: Rule) -> torch.Tensor:
    """Error divided by what is allowed; infinite where a NaN or Inf, or an integer, is not what it must be."""
    got, want, declared = elements.got, elements.want, elements.declared
    if rule.dtype not in EPSILON:
        same = got == want
        if declared is not None:
            same |= got == declared
        return _zero_or_inf(same)
    got, want = got.double(), want.double()
    error = (_finite_or_zero(got) - _finite_or_zero(want)).abs()
    quotient = torch.where(error == 0.0, 0.0, error / _allowed(want, rule))
    special = ~(torch.isfinite(got) & torch.isfinite(want))
    same = _same_special(got, want)
    if declared is not None:
        rounded = declared.double()
        overflows = ~torch.isfinite(rounded) & torch.isfinite(want)
        same |= overflows & _same_special(got, rounded)
        same |= overflows & torch.isnan(rounded) & ~torch.isfinite(got)
    return torch.where(special, _zero_or_inf(same), quotient)


def compare(output: str, elements: Elements, shape: tuple[int, ...], rule: Rule, poison: int) -> Comparison:
    """Judges a whole output.

    Args:
        poison: the byte that the output held before the kernel ran.
    """
    sums, total = _Sums(), elements.got.numel()
    marked = torch.zeros(total, dtype=torch.bool, device=elements.got.device)
    for at in range(0, total, _CHUNK):
        _add(sums, marked[at : at + _CHUNK], elements.part(slice(at, at + _CHUNK)), rule, poison)
    found = Comparison(
        output=output, shape=shape, wrong=sums.wrong, total=total, max_abs_error=sums.max_abs_error,
        error_ratio=sums.error_ratio, reference_error=rule.precision.own if rule.precision else 0.0,
        nan=sums.nan, inf=sums.inf, poison=sums.poison,
    )  # fmt: skip
    return _described(found, elements, marked, rule, poison) if sums.wrong else found


def _add(sums: _Sums, marked: torch.Tensor, elements: Elements, rule: Rule, poison: int) -> None:
    ratios = ratio(elements, rule)
    bad = ratios > 1.0
    marked.copy_(bad)
    untouched = _untouched(elements.got, poison)
    got = elements.got.double() if rule.dtype in EPSILON else elements.got
    sums.wrong += int(bad.sum())
    sums.error_ratio = max(sums.error_ratio, float(ratios.max()))
    sums.max_abs_error = max(
        sums.max_abs_error, float(_finite_error(elements.got.double(), elements.want.double()).max())
    )
    sums.poison += int((bad & untouched).sum())
    sums.nan += int((bad & torch.isnan(got) & ~untouched).sum())
    sums.inf += int((bad & torch.isinf(got)).sum())


def _described(found: Comparison, elements: Elements, marked: torch.Tensor, rule: Rule, poison: int) -> Comparison:
    """Adds where the wrong elements are and what they look like, from the part of the output around the first."""
    columns = found.shape[-1] if len(found.shape) > 1 else found.total
    first = _positions(marked)
    rows = max(1, _LOOKED_AT // columns)
    begin = first[0] // columns // rows * rows * columns
    seen = slice(begin, min(begin + rows * columns, found.total))
    part = elements.part(seen)
    got, want = _table(part.got, columns), _table(part.want, columns)
    bad, untouched = _table(marked[seen], columns), _table(_untouched(part.got, poison), columns)
    whole = seen.stop - seen.start == found.total
    if whole:
        got, want, bad, untouched = (a.reshape(found.shape) for a in (got, want, bad, untouched))
    text = correctness.described(Answer(got, want, None, untouched), bad, rule.tolerance)
    step = max(1, found.total // columns // (1 << 12))
    heatmap = correctness.heatmap(marked.reshape(-1, columns)[::step].cpu().numpy())
    return Comparison(
        **(vars(found) | {"first": _first(first, elements, found.shape), "heatmap": heatmap,
                          "pattern": text if whole or not text else f"in the part looked at: {text}"})
    )  # fmt: skip


def _positions(marked: torch.Tensor) -> list[int]:
    """The first few wrong elements; at least one is."""
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
        found.append(Mismatch(tuple(reversed(index)), float(elements.got[position]), float(elements.want[position])))
    return tuple(found)


def _table(flat: torch.Tensor, columns: int) -> Any:  # noqa: ANN401 - numpy array
    if flat.is_floating_point():
        flat = flat.double()
    return flat.reshape(-1, columns).cpu().numpy() if columns and flat.numel() % columns == 0 else flat.cpu().numpy()


def _allowed(want: torch.Tensor, rule: Rule) -> torch.Tensor:
    close = rule.tolerance.atol + rule.tolerance.rtol * _finite_or_zero(want).abs()
    if rule.precision is None or rule.dtype == "float64":
        return close
    least, most = correctness.bounds(rule.dtype, rule.tolerance, rule.precision)
    return close.clamp(min=least).clamp(max=most)


def _untouched(got: torch.Tensor, poison: int) -> torch.Tensor:
    raw = got.contiguous().view(torch.uint8).reshape(got.numel(), got.element_size())
    return (raw == poison).all(dim=1)


def _zero_or_inf(same: torch.Tensor) -> torch.Tensor:
    return torch.where(same, 0.0, torch.inf).double()


def _same_special(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(left) & torch.isnan(right)) | (torch.isinf(left) & (left == right))


def _finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(values), values, 0.0)


def _finite_error(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    both = torch.isfinite(left) & torch.isfinite(right)
    return torch.where(both, left - right, 0.0).abs()
