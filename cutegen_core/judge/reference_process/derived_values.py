"""Find on which values other than the file's own a kernel can be judged, and by what.

1. `draw_derived` gives every input other values of one kind (`derived_inputs`).
2. `find_basis` decides whether a kernel can be judged on them: the reference is defined there, and accurate enough at
   the declared precision. Its yardstick is the largest of the reference's own error, of what rounding the inputs
   changes, and of what rounding every result on the way changes: an honest kernel may add up in another order, so that
   luck of the reference's order does not count.
3. What becomes of NaN and infinities is judged only where the reference defines it: where an output does not depend on
   the special input (zero times NaN), or infinity has a finite limit, either answer is right.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import Array, Precision
from cutegen_core.judge.reference_process import tracing
from cutegen_core.judge.reference_process.derived_inputs import Drawn, draw_derived, replace_special, structure_of
from cutegen_core.judge.reference_process.drawing import widen
from cutegen_core.judge.reference_process.expected import (
    Expected,
    expect,
    find_open_choices,
    is_exact,
    run_choices,
    run_exact,
    run_rounded,
    run_selected,
    to_array,
)
from cutegen_core.judge.reference_process.input_structure import InputStructure
from cutegen_core.judge.reference_process.loading.live import Live, describe, dtype_name, instantiate
from cutegen_core.judge.reference_process.modes.finite_constants import FiniteConstants
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import SPECIAL_VALUES, WHOLE_VALUES, TensorRole, Values

_TRIED_SEED = 1 << 21
_COARSE = 64.0
_MOSTLY = 0.5
_FEW_ELEMENTS, _ROUNDINGS = 64, 12
"""One element says little about how far rounding moves an output, and so does one rounding where terms cancel: a
softmax of what is left of them may choose another column, or not."""
_IN_PRODUCTS = {Values.CANCELLING: _ROUNDINGS, Values.WIDE: 3}
"""Values of which terms of a product cancel, by design or by chance -> how often products are rounded, in turn."""
_OF_DOMINATED, _FEW_MOVED = 8, 1024
"""How often inputs are rounded, in turn, that one element dominates, where so few elements of an output move: few may
show any error, as where all others are limited."""
_QUICK_ELEMENTS = 1 << 18
"""Of all tensors of a reference, up to which running it in float64 several times takes no time that counts."""
_SUM_EPS = 2.0**-23
_WIDEST_EPS = 2.0**-7
"""Of bfloat16: nobody adds up in 8-bit floats."""
_WHERE_POSSIBLE = (Values.EXACT, Values.VAST, Values.PARAMETERS)
"""Values on which few references can be judged, by what they compute: that the others cannot is no news."""
_FLOATING = (
    Values.NEGATIVE_MEAN, Values.LARGE_MEAN, Values.ALL_NEGATIVE, Values.WIDE, Values.HUGE, Values.TINY,
    Values.DENORMAL, Values.SIGNED_ZEROS, Values.NEAR_CONSTANT, Values.CONSTANT, Values.DOMINANT,
    Values.DOMINANT_ACROSS, Values.CANCELLING, Values.SORTED, Values.SPARSE, Values.SLICE, Values.NAN, Values.INFINITE,
    Values.EXACT, Values.VAST,
)  # fmt: skip
_OF_ONE_SIGN = (
    Values.CONSTANT, Values.NEAR_CONSTANT, Values.SLICE, Values.LARGE_MEAN, Values.NEGATIVE_MEAN, Values.ALL_NEGATIVE,
)  # fmt: skip
_DOMINATED = (Values.DOMINANT, Values.DOMINANT_ACROSS)
_TIES = (Values.CONSTANT, Values.SPARSE, Values.SIGNED_ZEROS, Values.DENORMAL, Values.EXACT, *SPECIAL_VALUES)
"""Values of which the index of one of several elements is not defined: they are equal."""
_TIED = "the index of one of several elements is not defined where they are equal, or NaN"
_CHOOSERS = ("arg", "sort", "topk", "max_pool", "mode", "median", "kthvalue", "unique", "cummax", "cummin")
_OF_FIRST = frozenset({"aten.argmax", "aten.argmin", "aten.max", "aten.min"})
"""Operations of which the index is that of the first of equal elements."""


@dataclass(frozen=True)
class Basis:
    """What an output is judged by on derived values.

    Attributes:
        precision: yardstick of its error; None for whole numbers.
        others: further answers that are right, too.
        doubt: why it is not judged, while another output is.
    """

    precision: Precision | None
    others: tuple[Array, ...] = ()
    doubt: str = ""


def find_derived(source: str, origin: str, *, finite: bool) -> Iterator[tuple[Values, str]]:
    """Yield each kind of values that suits the file's inputs, with the reason why no kernel can be judged on it, or "".

    Args:
        finite: the problem has no NaN and no infinities.
    """
    structure = structure_of(source, origin)
    for values in _kinds(instantiate(source, origin), structure):
        if finite and values in SPECIAL_VALUES:
            continue
        if values is Values.VAST and tracing.weighs_by_exponentials(source, origin):
            continue
        try:
            drawn = draw_derived(source, origin, values, _TRIED_SEED)
            found = find_basis(drawn, expect(drawn.live), values, source)
        except ProblemError as error:
            found = str(error)
        why = found if isinstance(found, str) else ""
        if not (why and values in _WHERE_POSSIBLE):
            yield values, why


def find_basis(drawn: Drawn, expected: Expected, values: Values, source: str) -> tuple[Basis, ...] | str:
    """Return what each output is judged by, or why none is judged on these values.

    Raises:
        ProblemError: the reference cannot run on them.
    """
    if expected.exact is None:
        return f"the reference cannot run in float64 there: {expected.why}"
    if expected.undefined:
        return f"{expected.undefined}: what comes of it is not defined"
    try:
        if values is Values.EXACT and not is_exact(drawn.live):
            return "a result on the way is rounded there"
        rounded, *again = _run_roundings(drawn.live, expected.exact, values)
        stand_ins = tuple(run_exact(drawn.live, tensors) for tensors in drawn.stand_ins)
        selected = run_selected(drawn.live, drawn.live.tensors) if values in SPECIAL_VALUES else None
        excused = values not in SPECIAL_VALUES and has_own_specials(drawn.live, expected.exact)
        open_ones = find_open_choices(drawn.live, expected)
        whole = any(not one.is_floating_point() for one in expected.declared)
        chosen = list(run_choices(drawn.live)) if whole and expected.chooses else []
    except Exception as error:
        raise ProblemError(describe(error, drawn.live.origin)) from error
    if [t.shape for t in rounded] != [t.shape for t in expected.exact]:
        return "the shape of an output depends on the values"
    if open_ones:
        return f"{open_ones.what}, and an output depends on it"
    scales = _given_scales(source, drawn.live.origin)
    bases = []
    for k, (declared, exact) in enumerate(zip(expected.declared, expected.exact, strict=True)):
        if not declared.is_floating_point():
            own = [one[k] for one in (expected.declared, rounded, *chosen)]
            doubt = _doubt_choice(drawn.live, values, source) or _doubt_whole(own, exact)
            bases.append(Basis(None, doubt="" if _has_first(drawn.live, values, source) else doubt))
            continue
        precision = _yardstick(declared, exact, [one[k] for one in (rounded, *again)], scales[k])
        precision = correctness.with_sum(
            precision, dtype_name(declared), expected.longest_sum, is_sorted=values is Values.SORTED
        )
        if values in _DOMINATED:
            precision = replace(precision, own=max(precision.own, _sum_error(drawn.live) * precision.scale))
        finite = tuple(outputs[k] for outputs in stand_ins)
        others = _list_others(expected, k, finite, values) if finite else ()
        others += (to_array(torch.where(torch.isnan(exact), selected[k], exact)),) if selected else ()
        others += () if values in SPECIAL_VALUES else _list_overflowing(declared, exact)
        doubt = "" if values in SPECIAL_VALUES else _doubt_finite(declared, exact, excused)
        bases.append(Basis(precision, others, doubt or _doubt_error(exact, precision)))
    return tuple(bases) if any(not basis.doubt for basis in bases) else next((b.doubt for b in bases), "")


def _run_roundings(live: Live, exact: Sequence[torch.Tensor], values: Values) -> Iterator[Sequence[torch.Tensor]]:
    """Yield the outputs in float64 where the inputs are rounded, and then where results are; exact ones as they are."""
    if values is Values.EXACT:
        yield exact
        return
    small = sum(t.numel() for t in exact) <= _FEW_ELEMENTS
    quick = sum(t.numel() for t in live.tensors.values()) <= _QUICK_ELEMENTS
    again = _OF_DOMINATED if quick and values in _DOMINATED else 1
    for seed in range(1, 1 + (_ROUNDINGS if small else again)):
        outputs = run_exact(live, _round_inputs(live, values, seed))
        yield outputs
        if not small and _count_moved(outputs, exact) > _FEW_MOVED:
            break
    yield run_rounded(live, live.tensors, 1)
    for seed in range(1, 1 + _IN_PRODUCTS.get(values, 0)):
        yield run_rounded(live, live.tensors, seed, in_products=True)


def _count_moved(outputs: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> int:
    """Return how many elements rounding changes; outputs whose shape depends on the values count as a whole."""
    return sum(int((a != b).sum()) if a.shape == b.shape else a.numel() for a, b in zip(outputs, exact, strict=True))


@functools.lru_cache(maxsize=32)
def _given_scales(source: str, origin: str) -> tuple[float, ...]:
    """Return the largest number of each output on the file's own values: an error far below it is none."""
    given = expect(instantiate(source, origin)).declared
    return tuple(correctness.measure(to_array(t), to_array(t)).scale for t in given)


def _kinds(live: Live, structure: Mapping[str, InputStructure]) -> Iterator[Values]:
    free = [live.tensors[name] for name, one in structure.items() if not one.kept and not one.repeats]
    floats = [t for t in free if t.is_floating_point()]
    across = any(sum(extent > 1 for extent in t.shape) > 1 for t in floats)
    infinite = any(t.dtype is not torch.float8_e4m3fn for t in floats)
    left_out = (() if across else (Values.DOMINANT_ACROSS,)) + (() if infinite else (Values.INFINITE,))
    if floats:
        yield from (v for v in _FLOATING if v not in left_out)
    if len(free) > len(floats):
        yield from WHOLE_VALUES
    if any(live.tensors[name].is_floating_point() for name, role in live.roles.items() if role is TensorRole.PARAMETER):
        yield Values.PARAMETERS


def _round_inputs(live: Live, values: Values, seed: int) -> dict[str, torch.Tensor]:
    """Return float64 inputs, each moved outwards by at most one rounding of the declared precision.

    Sums of numbers of one sign grow with every element, and sums behind one element that dominates them are as large as
    that: there the roundings of sums in float32 add up.
    """
    generator = torch.Generator().manual_seed(seed)
    moved = {}
    for name, tensor in live.tensors.items():
        if tensor.is_floating_point() and live.roles[name] is TensorRole.INPUT:
            again = max(tensor.shape, default=1) ** 0.5 if values in (*_OF_ONE_SIGN, *_DOMINATED) else 0.0
            eps = min(torch.finfo(tensor.dtype).eps, _WIDEST_EPS)
            most = eps + again * min(_SUM_EPS, eps)
            step = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * most
            moved[name] = _within(tensor.double(), tensor.double() * (1 + step))
        else:
            moved[name] = tensor
    return moved


def _within(given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Return the moved numbers; where the given ones are probabilities, they stay so."""
    is_share = given.numel() > 0 and bool(((given >= 0) & (given <= 1)).all())
    return moved.clamp(max=1.0) if is_share else moved


def _yardstick(
    declared: torch.Tensor, exact: torch.Tensor, rounded: Iterable[torch.Tensor], given_scale: float
) -> Precision:
    want = to_array(exact)
    found = correctness.measure(want, to_array(declared), dtype_name(declared))
    for other in rounded:
        found = found.merge(correctness.measure(want, to_array(other)))
    return replace(found, scale=max(found.scale, given_scale))


def _sum_error(live: Live) -> float:
    """Return the relative rounding of a sum over the longest extent: where one element dominates, no other shows it."""
    longest = max((extent for tensor in live.tensors.values() for extent in tensor.shape), default=1)
    return float(longest**0.5 * _SUM_EPS)


def has_own_specials(live: Live, exact: Iterable[torch.Tensor]) -> bool:
    """Return whether infinities and NaN in the outputs come only from those of the file: of its inputs and constants.

    Args:
        exact: the outputs in float64.
    """
    if are_finite(exact):
        return False
    finite = {name: replace_special(t) if t.is_floating_point() else t for name, t in live.tensors.items()}
    with FiniteConstants():
        outputs = run_exact(live, finite)
    return are_finite(outputs)


def are_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether no element of these is infinite or NaN."""
    return all(bool(torch.isfinite(widen(tensor)).all()) for tensor in tensors)


def _list_overflowing(declared: torch.Tensor, exact: torch.Tensor) -> tuple[Array, ...]:
    """Return NaN as right, too, where the declared precision does not hold what is finite: a kernel goes another way
    there, and may subtract infinities."""
    overflows = ~torch.isfinite(widen(declared)) & torch.isfinite(exact)
    return (to_array(torch.where(overflows, torch.nan, exact)),) if bool(overflows.any()) else ()


def _doubt_finite(declared: torch.Tensor, exact: torch.Tensor, excused: bool) -> str:
    """Return why an output that should be finite says nothing, or "" if it does."""
    overflows = ~torch.isfinite(widen(declared))
    if excused:
        overflows = overflows & torch.isfinite(exact)
    lost = float(overflows.double().mean()) if exact.numel() else 0.0
    doubtful = lost > _MOSTLY or not (excused or are_finite([exact]))
    return f"{lost:.0%} of an output is NaN or Inf, or overflows" if doubtful else ""


def _doubt_error(exact: torch.Tensor, precision: Precision) -> str:
    scale = correctness.measure(to_array(exact), to_array(exact)).scale
    if precision.own * _COARSE > max(scale, precision.scale):
        return f"the reference error there is {precision.own:.1e} of {scale:.1e}"
    return ""


def _doubt_choice(live: Live, values: Values, source: str) -> str:
    """Return a doubt where the reference picks one of elements that are equal there, or does what no trace tells."""
    choosers = _choosers(source, live.origin)
    return _TIED if values in _TIES and (choosers is None or choosers) else ""


def _has_first(live: Live, values: Values, source: str) -> bool:
    """Return whether all that the reference picks is the first of equal elements, as PyTorch says, and none of these
    is rounded before: whoever computes it, has the same."""
    choosers = _choosers(source, live.origin)
    return bool(choosers) and set(choosers or ()) <= _OF_FIRST and values is not Values.NAN and is_exact(live)


@functools.lru_cache(maxsize=32)
def _choosers(source: str, origin: str) -> Sequence[str] | None:
    """Return the operations of the reference that pick one of several elements; None where no trace tells."""
    nodes = tracing.trace(source, origin).nodes
    known = {node.op for node in nodes}
    return [op for op in known if op in _OF_FIRST or any(word in op for word in _CHOOSERS)] if nodes else None


def _doubt_whole(own: Sequence[torch.Tensor], exact: torch.Tensor) -> str:
    same = all(torch.equal(one, exact) for one in own)
    return "" if same else "an output of whole numbers changes with the rounding of the inputs"


def _list_others(expected: Expected, k: int, finite: tuple[torch.Tensor, ...], values: Values) -> tuple[Array, ...]:
    """Return what else is right of output k where the reference does not define what becomes of a special input."""
    assert expected.exact is not None
    declared, exact = widen(expected.declared[k]), expected.exact[k]
    first, conflict = finite[0], torch.isnan(declared) != torch.isnan(exact)
    conflict = conflict | (torch.isinf(declared) != torch.isinf(exact))
    other = torch.where(conflict, declared.double(), exact)
    if values is Values.INFINITE:
        undefined = torch.isnan(exact)
        limits = (torch.where(torch.isfinite(first), first, exact), torch.full_like(exact, torch.inf))
        made = [torch.where(undefined, limit, exact) for limit in (*limits, -limits[1])]
        if expected.adds_up:  # compensated sums and scaled squares subtract infinity from infinity
            made.append(torch.where(torch.isinf(exact), torch.nan, exact))
    elif expected.takes_nan_away:
        made = []
    else:
        depends = torch.stack([another != first for another in finite[1:]]).any(dim=0)
        swallowed = depends & torch.isfinite(exact)
        made = [torch.where(swallowed, torch.nan, torch.where(depends, exact, first))]
    return tuple(to_array(one) for one in (other, *made))
