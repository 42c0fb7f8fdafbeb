"""Describe the floats of 8 and 16 bits: how far rounding to one moves a value, and what is beyond the largest.

* An output of few stored bits is judged against the reference before rounding, so half a unit in the last place at each
  value comes on top of what the tolerance allows: that is what the format itself costs.
* Beyond the largest number of 8 bits conversions differ: hardware and CUDA's types saturate, versions of torch saturate
  or give NaN (`float8_e4m3fn` has no infinity) or infinity. So all of these are right, the sign given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SmallFloat:
    """One format.

    Attributes:
        mantissa: stored bits of the significand.
        lowest: exponent of the smallest normal number.
        largest: largest finite number.
        infinity: whether the format has infinities.
    """

    mantissa: int
    lowest: int
    largest: float
    infinity: bool

    @property
    def epsilon(self) -> float:
        return 2.0**-self.mantissa

    @property
    def smallest(self) -> float:
        """Smallest number above zero."""
        return 2.0 ** (self.lowest - self.mantissa)

    @property
    def overflows_from(self) -> float:
        """Halfway to the number that would follow the largest; what lies beyond does not round to the largest."""
        return self.largest + self.half_unit(self.largest)

    def half_unit(self, value: float) -> float:
        """Return half a unit in the last place at one value."""
        return float(half_units(self, np.asarray(value)))


FLOAT8: Mapping[str, SmallFloat] = {
    "float8_e4m3fn": SmallFloat(3, -6, 448.0, infinity=False),
    "float8_e5m2": SmallFloat(2, -14, 57344.0, infinity=True),
}
FLOAT16: Mapping[str, SmallFloat] = {
    "float16": SmallFloat(10, -14, 65504.0, infinity=True),
    "bfloat16": SmallFloat(7, -126, 2.0**128 - 2.0**120, infinity=True),
}
ROUNDED = {**FLOAT8, **FLOAT16}
"""Formats whose own rounding is no error."""


def decode(dtype: str, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the value of every code."""
    float8 = FLOAT8[dtype]
    wide = codes.astype(np.int64)
    exponent, fraction = (wide & 0x7F) >> float8.mantissa, wide & ((1 << float8.mantissa) - 1)
    whole = fraction + np.where(exponent > 0, 1 << float8.mantissa, 0)
    magnitude = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - 1 + float8.lowest - float8.mantissa)
    special = np.where((fraction == 0) & float8.infinity, np.inf, np.nan)
    magnitude = np.where(magnitude > float8.largest, special, magnitude)
    return np.asarray(np.where(wide & 0x80, -magnitude, magnitude).astype(np.float32))


def half_units(kind: SmallFloat, want: Array) -> Array:
    """Return half a unit in the last place at each value: the most that rounding moves it."""
    bounded = np.clip(np.abs(want), 2.0**kind.lowest, kind.largest)
    return np.asarray(np.ldexp(0.5, np.frexp(bounded)[1] - 1 - kind.mantissa))


def saturate(dtype: str, want: Array) -> Array:
    """Return the values with those beyond the largest number replaced by it, also infinities; other dtypes as given."""
    float8 = FLOAT8.get(dtype)
    return want if float8 is None else np.clip(want, -float8.largest, float8.largest)
