"""Draw other values than the file's own for its inputs, within the structure of these.

What the structure says of an input stays: its zeros, its infinities and NaN, its order, its range. The other elements
become those of the kind asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cutegen_core.judge.reference_process import tracing
from cutegen_core.judge.reference_process.drawing import (
    choose,
    choose_special,
    draw_adversarial,
    draw_exact,
    draw_whole,
    halves_behind,
    put_special,
    widen,
)
from cutegen_core.judge.reference_process.expected import is_exact
from cutegen_core.judge.reference_process.input_structure import InputStructure, find_structure
from cutegen_core.judge.reference_process.loading.live import Live, instantiate
from cutegen_core.judge.reference_process.values import redraw
from cutegen_core.records.problem import SPECIAL_VALUES, WHOLE_VALUES, Values

_STAND_INS = 3
_SCORES, _FACTORS = 1e6, 1e3
"""Where a softmax is made of them, or of their products, numbers are this large at most: exponentials of them are
infinite. From 1e9 on that of the rounding of the largest, times log2 e, would be, which is how fast kernels begin."""


@dataclass(frozen=True)
class Drawn:
    """A reference with derived inputs.

    Attributes:
        stand_ins: the same inputs with finite numbers in place of what was made special; empty if nothing was.
    """

    live: Live
    stand_ins: tuple[Mapping[str, torch.Tensor], ...]


def draw_derived(source: str, origin: str, values: Values, seed: int) -> Drawn:
    """Return the reference with inputs of this kind; equal seeds give equal values.

    Raises:
        ProblemError: the file's code raised.
    """
    live = instantiate(source, origin, seed)
    if values is Values.PARAMETERS:
        return Drawn(redraw(live, values, seed), ())
    structure = structure_of(source, origin)
    if values is not Values.EXACT:
        opposed = values is Values.NEGATIVE_MEAN and tracing.adds_up_products(source, origin)
        most = _most(source, origin) if values is Values.HUGE else math.inf
        return _draw(live, structure, values, seed, opposed=opposed, most=most)
    constants = tracing.find_constants(source, origin)
    halves = halves_behind(constants)
    as_often = len(halves) // max(1, len(constants)) + 1
    drawn = _draw(live, structure, values, seed, (*constants * as_often, *halves))
    return drawn if _meets_exactly(drawn.live) else _draw(live, structure, values, seed, constants)


def _meets_exactly(live: Live) -> bool:
    """Return whether nothing on the way is rounded; not, where the reference does not run on such numbers."""
    try:
        return is_exact(live)
    except Exception:  # noqa: BLE001 - whatever the file raises
        return False


def _draw(
    live: Live,
    structure: Mapping[str, InputStructure],
    values: Values,
    seed: int,
    constants: Sequence[float] = (),
    *,
    opposed: bool = False,
    most: float = math.inf,
) -> Drawn:
    """Draw the inputs within their structure.

    Args:
        constants: numbers of the reference, for values that meet these.
        most: the largest magnitude.
        opposed: every second floating input is far above zero where the others are far below: products are negative.
    """
    generator = torch.Generator().manual_seed(seed + 3)
    tensors, stand_ins = dict(live.tensors), tuple(dict(live.tensors) for _ in range(_STAND_INS))
    floats = [name for name in structure if live.tensors[name].is_floating_point()]
    far_above = floats[1::2] if opposed else []
    for name, one in structure.items():
        given = live.tensors[name]
        if one.repeats:
            for made in (tensors, *stand_ins):
                made[name] = made[one.repeats]
        elif one.kept or given.is_floating_point() is (values in WHOLE_VALUES):
            continue
        elif values in SPECIAL_VALUES:
            for made, tensor in zip((tensors, *stand_ins), _draw_special(given, one, values, generator), strict=True):
                made[name] = tensor
        elif given.is_floating_point():
            if values is Values.EXACT:
                other = draw_exact(given, constants, generator)
            else:
                kind = Values.LARGE_MEAN if name in far_above else values
                other = _bounded(draw_adversarial(replace_special(given), kind, generator), most)
            drawn = choose(_kept_places(given, one), given, other)
            tensors[name] = widen(drawn).sort()[0].to(drawn.dtype) if one.ordered else drawn
        else:
            tensors[name] = _draw_whole(given, one, values, generator)
    return Drawn(replace(live, tensors=tensors), stand_ins if values in SPECIAL_VALUES else ())


def _most(source: str, origin: str) -> float:
    """Return the largest magnitude of huge numbers."""
    if not tracing.weighs_by_exponentials(source, origin):
        return math.inf
    return _FACTORS if tracing.adds_up_products(source, origin) else _SCORES


def _bounded(tensor: torch.Tensor, most: float) -> torch.Tensor:
    """Return a tensor whose largest magnitude is at most this one."""
    largest = float(widen(tensor).abs().max()) if tensor.numel() else 0.0
    return tensor if largest <= most else (widen(tensor) * (most / largest)).to(tensor.dtype)


@functools.lru_cache(maxsize=32)
def structure_of(source: str, origin: str) -> Mapping[str, InputStructure]:
    """Return the structure of every input, by name."""
    return find_structure(source, origin)


def replace_special(tensor: torch.Tensor) -> torch.Tensor:
    """Return the floating tensor with a finite number of its own in place of each infinity and NaN."""
    finite = torch.isfinite(widen(tensor))
    numbers = tensor.reshape(-1)[finite.reshape(-1)]
    return choose(finite, tensor, numbers[0].expand(tensor.shape) if numbers.numel() else torch.zeros_like(tensor))


def _kept_places(given: torch.Tensor, structure: InputStructure) -> torch.Tensor:
    """Return where the given elements stay: infinities and NaN, and zeros where these belong to the structure."""
    wide = widen(given)
    return ~torch.isfinite(wide) | ((wide == 0) if structure.zeros else torch.zeros_like(wide, dtype=torch.bool))


def _draw_special(
    given: torch.Tensor, structure: InputStructure, values: Values, generator: torch.Generator
) -> tuple[torch.Tensor, ...]:
    """Return the input with special elements, and stand-ins with finite numbers in their place.

    In place of infinity stands a large number of the same sign; in place of NaN stand the given number and two large
    ones, so that an output which depends on the element changes.
    """
    places, signs = choose_special(given, generator, values)
    places, wide = places & ~_kept_places(given, structure), widen(given)
    held = torch.isinf(wide)
    if bool(held.any()) and bool((wide[held] == wide[held][0]).all()):  # the file draws infinities of one sign
        signs = torch.full_like(signs, float(wide[held][0].sign()))
    large = torch.full_like(wide, float(torch.finfo(given.dtype).max) ** 0.75)
    finite = (wide, large, -large / 3) if values is Values.NAN else (large * signs.to(large),) * _STAND_INS
    return put_special(given, places, signs, values), *(choose(places, n.to(given), given) for n in finite)


def _draw_whole(
    given: torch.Tensor, structure: InputStructure, values: Values, generator: torch.Generator
) -> torch.Tensor:
    """Return other whole numbers that are ordered, bounded or distinct like the given ones."""
    flat = given.reshape(-1)
    if structure.distinct:
        ordered = flat.sort(descending=values is Values.HIGHEST and not structure.ordered)[0]
        return ordered.reshape(given.shape) if values in (Values.LOWEST, Values.HIGHEST) else given
    made = draw_whole(flat, values, generator, (structure.low, structure.high))
    if structure.ordered:
        made = made.sort()[0]
    if structure.bounded:
        made[0], made[-1] = flat[0], flat[-1]
    return made.reshape(given.shape)
