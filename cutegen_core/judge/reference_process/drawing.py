"""Draw adversarial inputs: values on which a kernel that is right on ordinary ones fails.

A row is a line along the last dimension. Random numbers are drawn on the generator's device, whatever torch's default
device is, and scales stay in the range of the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from cutegen_core.records.problem import Values

_LARGE_MEAN = 100.0
_ZEROS = 0.02
_FINEST = 10
"""Binary digits behind the point of numbers that are met exactly."""
_LARGEST_HALF = 1e4
_LARGE_SCALE = 1000.0
_SMALL_FRACTION = 0.125
_NEAR = 2.0**-6
_SLICE = 8
_OTHERS = 0.05
_ANY = 1 << 62
_NARROW = (torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
"""Their largest numbers are 65504, 448 and 57344: scales are smaller there."""
_ONE_BYTE = (torch.float8_e4m3fn, torch.float8_e5m2)


@dataclass(frozen=True)
class _AdversarialDraw:
    """One input, and the generator that its new values come from."""

    given: torch.Tensor
    generator: torch.Generator

    @property
    def shape(self) -> torch.Size:
        return self.given.shape

    def limit(self, scale: float, narrow: float) -> float:
        """Return the scale, or the one for a dtype with a narrow range."""
        return narrow if self.given.dtype in _NARROW else scale

    def normal(self) -> torch.Tensor:
        return torch.randn(self.shape, generator=self.generator, device=self.generator.device)

    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape or self.shape, generator=self.generator, device=self.generator.device)

    def below(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape, generator=self.generator, device=self.generator.device)

    def values(self) -> torch.Tensor:
        """Return the given values on the generator's device, in at least float32."""
        wide = torch.float64 if self.given.dtype is torch.float64 else torch.float32
        return self.given.to(self.generator.device, wide)


def draw_adversarial(tensor: torch.Tensor, values: Values, generator: torch.Generator) -> torch.Tensor:
    """Return one floating input with the shape, dtype and device of `tensor`."""
    if values is Values.LARGE_MEAN:  # in the tensor's own dtype
        wide = widen(tensor)
        moved = (wide + torch.tensor(_LARGE_MEAN, dtype=wide.dtype, device=wide.device)).to(tensor.dtype)
        return choose(wide == 0, tensor, moved) if has_zeros(wide) else moved
    return _narrow(_KINDS[values](_AdversarialDraw(tensor, generator)), tensor)


def choose(places: torch.Tensor, made: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of `made` at these places, else those of `tensor`; of 8-bit floats by their bytes."""
    if tensor.dtype not in _ONE_BYTE:
        return torch.where(places, made, tensor)
    return torch.where(places, made.view(torch.uint8), tensor.view(torch.uint8)).view(tensor.dtype)


def has_zeros(tensor: torch.Tensor) -> bool:
    """Return whether so many elements are zero that it is their place: of a triangle, of what is padded."""
    return tensor.numel() > 0 and int((tensor == 0).sum()) / tensor.numel() > _ZEROS


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return an 8-bit float as float32, which torch can compare, sort and add; any other tensor as it is."""
    return tensor.float() if tensor.dtype in _ONE_BYTE else tensor


def put_special(tensor: torch.Tensor, places: torch.Tensor, signs: torch.Tensor, values: Values) -> torch.Tensor:
    """Return the tensor with NaN, or infinities of these signs, at the places that are true."""
    special = torch.full_like(signs, torch.nan) if values is Values.NAN else signs * torch.inf
    return choose(places, _narrow(special, tensor), tensor)


def draw_special(tensor: torch.Tensor, values: Values, generator: torch.Generator) -> torch.Tensor:
    """Return one floating input with NaN or infinities in some of its rows."""
    return put_special(tensor, *choose_special(tensor, generator, values), values)


def draw_whole(
    tensor: torch.Tensor, values: Values, generator: torch.Generator, ends: tuple[int, int] | None = None
) -> torch.Tensor:
    """Return one input of whole numbers or bools: all at an end of the range, at both in turns, or nearly all equal.

    Args:
        ends: the range; by default that of the tensor.
    """
    given = tensor.reshape(-1).long()
    low, high = ends or (int(given.min()), int(given.max()))
    made = torch.full_like(given, low if values is Values.LOWEST else high)
    if values is Values.RANGE_ENDS:
        made[::2] = low
    elif values is Values.HUB:
        there = generator.device
        others = torch.rand(made.shape, generator=generator, device=there) < _OTHERS
        hub = given[int(torch.randint(_ANY, (1,), generator=generator, device=there)) % given.numel()]
        made = torch.where(others.to(given.device), given, hub)
    return made.reshape(tensor.shape).to(tensor.dtype)


def choose_special(
    tensor: torch.Tensor, generator: torch.Generator, values: Values
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose one element in some of the rows, the first and the last column among them; return places and signs.

    Both signs occur where there are two rows. One row of three is minus infinity as a whole, as where everything is
    masked.
    """
    draw = _AdversarialDraw(tensor, generator)
    lines = _lines(torch.zeros(tensor.shape, device=generator.device))
    signs = _lines(torch.where(draw.uniform() < 0.5, -1.0, 1.0))
    rows, columns = lines.shape
    if lines.numel():
        chosen = torch.randperm(rows, generator=generator, device=generator.device)[: max(3, -(-rows // 3))]
        at = _cycle_places(draw, columns, len(chosen))
        lines[chosen, at] = 1
        signs[chosen[1::2]] = -signs[chosen[0], at[0]]
        if values is Values.INFINITE and len(chosen) > 2:
            lines[chosen[-1]], signs[chosen[-1]] = 1, -1.0
    places = lines.reshape(tensor.shape).bool()
    return places.to(tensor.device), signs.reshape(tensor.shape).to(tensor.device)


def _narrow(made: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return values in the dtype and on the device of `tensor`; what an 8-bit float cannot hold becomes its largest."""
    if tensor.dtype is torch.float8_e4m3fn:  # conversions give the largest number, or NaN
        made = made.clamp(torch.finfo(tensor.dtype).min, torch.finfo(tensor.dtype).max)
    return made.to(tensor)


def _lines(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of the tensor as rows; one without elements has none."""
    columns = max(1, tensor.shape[-1]) if tensor.dim() else 1
    return tensor.reshape(tensor.numel() // columns, columns)


def _cycle_places(draw: _AdversarialDraw, extent: int, count: int) -> torch.Tensor:
    """Return a place for each of so many lines: the last, the first, then random ones, and so on."""
    places = draw.below(max(extent, 1), count)
    places[0::3], places[1::3] = extent - 1, 0
    return places


def _large_scale(draw: _AdversarialDraw) -> torch.Tensor:
    return draw.normal() * draw.limit(_LARGE_SCALE, 60.0)


def _one_hot(draw: _AdversarialDraw) -> torch.Tensor:
    hot = _lines(torch.zeros(draw.shape, device=draw.generator.device))
    if hot.numel():
        rows, columns = hot.shape
        hot[torch.arange(rows, device=hot.device), draw.below(columns, rows)] = 1
    return hot.reshape(draw.shape)


def draw_exact(tensor: torch.Tensor, constants: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """Return one floating input of eighths, and in half of the places the reference's constants: these thresholds, and
    halves that are rounded, are met exactly."""
    eighths = draw_adversarial(tensor, Values.EXACT, generator)
    if not constants:
        return eighths
    draw = _AdversarialDraw(tensor, generator)
    known = torch.tensor(constants, device=generator.device)[draw.below(len(constants), *draw.shape)]
    return choose((draw.uniform() < 0.5).to(tensor.device), _narrow(known, tensor), eighths)


def halves_behind(constants: Sequence[float]) -> tuple[float, ...]:
    """Return numbers up to 10,000 that one of these constants, as a factor or a divisor, makes a whole number and a
    half."""
    halves = [k + 0.5 for k in range(-4, 4)]
    found = {moved for c in constants if c > 0 for half in halves for moved in (half / c, half * c)}
    fine = (n * 2**_FINEST for n in found if abs(n) <= _LARGEST_HALF)
    return tuple(sorted(n / 2**_FINEST for n in fine if n == int(n)))


def _exact(draw: _AdversarialDraw) -> torch.Tensor:
    """Draw eighths between -5 and 5: sums and products of few of them are not rounded."""
    return (draw.below(81, *draw.shape) - 40) / 8


def _sparse(draw: _AdversarialDraw) -> torch.Tensor:
    return torch.where(draw.uniform() < 0.05, draw.values(), 0.0)


def _denormal(draw: _AdversarialDraw) -> torch.Tensor:
    return draw.normal() * (torch.finfo(draw.given.dtype).tiny * _SMALL_FRACTION)


def _negative_mean(draw: _AdversarialDraw) -> torch.Tensor:
    return draw.values() - _LARGE_MEAN


def _all_negative(draw: _AdversarialDraw) -> torch.Tensor:
    return -(draw.values().abs() + 1.0) * draw.limit(200.0, 20.0)


def _wide(draw: _AdversarialDraw) -> torch.Tensor:
    """Spread the magnitudes evenly over the powers of ten: each row, and each element in it."""
    low, high = draw.limit(-6.0, -3.0), draw.limit(6.0, 1.5)
    rows = _lines(draw.values()).shape[0]
    powers = low + (high - low) * (draw.uniform(rows, 1) + _lines(draw.uniform())) / 2
    signs = torch.where(draw.uniform() < 0.5, -1.0, 1.0)
    return signs * (10.0**powers).reshape(draw.shape)


def _huge(draw: _AdversarialDraw) -> torch.Tensor:
    return draw.normal() * draw.limit(1e15, 100.0)


def _vast(draw: _AdversarialDraw) -> torch.Tensor:
    """Draw what a float32 holds, and whose square it does not; sums of it do not overflow."""
    return draw.normal() * draw.limit(1e20, 1000.0)


def _tiny(draw: _AdversarialDraw) -> torch.Tensor:
    """Scale each row by a power of ten of its own, down to where squares are still normal numbers."""
    powers = draw.limit(-12.0, -3.0) * draw.uniform(_lines(draw.values()).shape[0], 1)
    return (_lines(draw.normal()) * 10.0**powers).reshape(draw.shape)


def _signed_zeros(draw: _AdversarialDraw) -> torch.Tensor:
    which = draw.uniform()
    return torch.where(which < 0.25, 0.0, torch.where(which < 0.5, -0.0, draw.values()))


def _constant(draw: _AdversarialDraw) -> torch.Tensor:
    """Make every row one value; every third row is zeros."""
    rows = _lines(draw.values()).shape[0]
    level = torch.randn(rows, 1, generator=draw.generator, device=draw.generator.device) * 4.0
    level[0::3] = 0.0
    return level.expand(_lines(draw.values()).shape).reshape(draw.shape)


def _near_constant(draw: _AdversarialDraw) -> torch.Tensor:
    """Make every row one value with a ripple; in every second row the ripple is smaller than usual epsilons."""
    rows = _lines(draw.values()).shape[0]
    level = torch.randn(rows, 1, generator=draw.generator, device=draw.generator.device) * 4.0
    ripple = torch.full((rows, 1), _NEAR, device=draw.generator.device)
    ripple[1::2] = _NEAR / 8
    return (level + _lines(draw.normal()) * ripple).reshape(draw.shape)


def _dominant(draw: _AdversarialDraw) -> torch.Tensor:
    """Give every row one element far larger than all others: at its end, its start, or anywhere."""
    lines = _lines(draw.values()).clone()
    if lines.numel():
        rows, columns = lines.shape
        places = _cycle_places(draw, columns, rows)
        peaks = (1.0 + draw.uniform(rows)) * draw.limit(1e4, 200.0)
        lines[torch.arange(rows, device=lines.device), places] = peaks.to(lines)
    return lines.reshape(draw.shape)


def _dominant_across(draw: _AdversarialDraw) -> torch.Tensor:
    """Do the same along the first dimension that has more than one element."""
    axis = next((k for k, extent in enumerate(draw.shape) if extent > 1), 0)
    turned = draw.values().movedim(axis, -1) if draw.shape else draw.values()
    return (
        _dominant(_AdversarialDraw(turned.to(draw.given.dtype), draw.generator)).movedim(-1, axis)
        if draw.shape
        else turned
    )


def _cancelling(draw: _AdversarialDraw) -> torch.Tensor:
    """Pair large elements of opposite sign at random places of each row, so that small ones decide the sum."""
    lines = _lines(draw.values()).clone()
    rows, columns = lines.shape
    half = columns // 2
    order = _lines(draw.uniform()).argsort(dim=-1)
    large = torch.randn(rows, half, generator=draw.generator, device=draw.generator.device) * draw.limit(1e3, 30.0)
    large = large.to(lines)
    lines.scatter_add_(1, order[:, :half], large)
    lines.scatter_add_(1, order[:, half : 2 * half], -large)
    return lines.reshape(draw.shape)


def _sorted(draw: _AdversarialDraw) -> torch.Tensor:
    """Sort every row: upwards in the first, downwards in the next."""
    lines = _lines(draw.values()).sort(dim=-1)[0].clone()
    lines[1::2] = lines[1::2].flip(-1)
    return lines.reshape(draw.shape)


def _slice(draw: _AdversarialDraw) -> torch.Tensor:
    """Put the signal into one slice of every dimension; the slice has the same place in all inputs.

    A part of a sum that is dropped or added twice shows whatever the size, since the rest is small.
    """
    place = float(draw.uniform(1))
    signal = torch.ones(draw.shape, device=draw.generator.device)
    for axis, extent in enumerate(draw.shape):
        width = max(1, extent // _SLICE)
        start = round(place * (extent - width))
        inside = torch.zeros(extent, device=signal.device)
        inside[start : start + width] = 1.0
        signal = signal * inside.reshape([-1 if k == axis else 1 for k in range(signal.dim())])
    large = draw.values() * draw.limit(1e3, 30.0)
    return torch.where(signal > 0, large, draw.values() * _NEAR)


def _multiplied(draw: _AdversarialDraw) -> torch.Tensor:
    """Multiply each element by a number between -8 and 8, as training may.

    A single one, such as a slope or the logarithm of a scale, keeps its sign and becomes 1 at least, four times what it
    was at least: the signs of many elements show as well.
    """
    given, factors = draw.values(), 16 * draw.uniform() - 8
    if given.numel() != 1:
        return given * factors
    return torch.copysign(given.abs().clamp(min=0.25), given) * (4 + factors.abs() / 2)


_KINDS: Mapping[Values, Callable[[_AdversarialDraw], torch.Tensor]] = {
    Values.LARGE_SCALE: _large_scale,
    Values.ONE_HOT: _one_hot,
    Values.SPARSE: _sparse,
    Values.DENORMAL: _denormal,
    Values.NEGATIVE_MEAN: _negative_mean,
    Values.ALL_NEGATIVE: _all_negative,
    Values.WIDE: _wide,
    Values.HUGE: _huge,
    Values.VAST: _vast,
    Values.TINY: _tiny,
    Values.SIGNED_ZEROS: _signed_zeros,
    Values.NEAR_CONSTANT: _near_constant,
    Values.CONSTANT: _constant,
    Values.DOMINANT: _dominant,
    Values.DOMINANT_ACROSS: _dominant_across,
    Values.CANCELLING: _cancelling,
    Values.SORTED: _sorted,
    Values.SLICE: _slice,
    Values.EXACT: _exact,
    Values.PARAMETERS: _multiplied,
}
