"""Outputs in 8-bit floats: their own rounding is no error, one unit is; beyond the largest number either is right."""

import numpy as np
import pytest

from cutegen_core.judge.correctness import OutputValues, compare
from cutegen_core.judge.small_floats import FLOAT8, decode, half_units
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Tolerance
from tests.float8 import CODES, E4M3, E5M2, encode, values

FORMATS = {"float8_e4m3fn": E4M3, "float8_e5m2": E5M2}
TIGHT = Tolerance(1e-6, 1e-6)
BOTH = pytest.mark.parametrize("dtype", FORMATS)


def rounded(x, dtype, *, saturate=True):
    form = FORMATS[dtype]
    return values(form)[encode(np.asarray(x, dtype=np.float32), form, saturate=saturate)].astype(np.float64)


def wrong(got, want, dtype, tolerance=TIGHT, declared=None):
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    declared = rounded(want, dtype) if declared is None else np.asarray(declared, dtype=np.float64)
    answer = OutputValues(got, want, declared, np.zeros(got.shape, dtype=bool))
    return compare("out", dtype, tolerance, answer).wrong


@pytest.fixture
def scaled():
    return np.random.default_rng(1).standard_normal((64, 129)) * 100.0


@BOTH
def test_the_format_is_the_tables(dtype):
    form, float8 = FORMATS[dtype], FLOAT8[dtype]
    assert np.array_equal(decode(dtype, CODES), values(form), equal_nan=True)
    finite = values(form)[: form.largest + 1].astype(np.float64)
    assert (finite[-1], finite[1]) == (float8.largest, float8.smallest)
    gaps = np.diff(finite)
    assert np.array_equal(half_units(float8, finite[:-1]), gaps / 2)
    assert float8.overflows_from == finite[-1] + gaps[-1] / 2


@BOTH
def test_correct_rounding_passes_and_one_unit_further_fails(dtype, scaled):
    code = encode(scaled.astype(np.float32), FORMATS[dtype], saturate=True)
    got = values(FORMATS[dtype])[code].astype(np.float64)
    assert wrong(got, scaled.astype(np.float32), dtype) == 0
    away = values(FORMATS[dtype])[np.where(code & 0x7F, code - 1, code + 1).astype(np.uint8)].astype(np.float64)
    assert wrong(away, scaled, dtype) == away.size


@BOTH
def test_a_tie_may_fall_either_way_and_nothing_else_may(dtype):
    finite = values(FORMATS[dtype])[: FORMATS[dtype].largest + 1].astype(np.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    assert wrong(finite[1:], middles, dtype) == wrong(finite[:-1], middles, dtype) == 0
    beside = finite[:-1] + 0.499 * np.diff(finite)
    assert wrong(finite[1:], beside, dtype, Tolerance(0.0, 1e-6)) == len(middles)


@BOTH
def test_truncation_and_a_scale_in_bfloat16_fail_and_a_reciprocal_passes(dtype, scaled):
    scale = np.float32(0.3137)
    want = scaled.astype(np.float32).astype(np.float64) / np.float64(scale)
    cut = values(FORMATS[dtype])[encode((want * (1 - 2.0**-4)).astype(np.float32), FORMATS[dtype], saturate=True)]
    assert wrong(cut, want, dtype) > want.size // 4
    reciprocal = rounded(scaled.astype(np.float32) * (np.float32(1) / scale), dtype)
    assert wrong(reciprocal, want, dtype) == 0
    coarse = rounded(want * (1 + 2.0**-9), dtype)
    assert wrong(coarse, want, dtype) > 0
    assert wrong(coarse, want, dtype, DEFAULT_TOLERANCE[dtype]) == 0


@BOTH
@pytest.mark.parametrize("declares", ["saturated", "overflowed"])
def test_beyond_the_largest_number_saturated_and_overflowed_are_right(dtype, declares):
    largest = FLOAT8[dtype].largest
    limit = FLOAT8[dtype].overflows_from
    want = np.array([limit * 1.01, -1e30, np.inf, -np.inf, largest, limit])
    saturated = np.array([1, -1, 1, -1, 1, 1]) * largest
    over = rounded(want, dtype, saturate=False)
    declared = saturated if declares == "saturated" else over
    assert wrong(saturated, want, dtype, declared=declared) == 0
    assert wrong(over, want, dtype, declared=declared) == 0
    assert wrong(-saturated, want, dtype, declared=declared) == 6
    assert wrong(saturated * 0.8, want, dtype, declared=declared) == 6
    assert wrong(np.full(2, np.nan), [largest, 1.0], dtype, declared=[largest, 1.0]) == 2


@BOTH
def test_nan_must_match(dtype):
    assert wrong([np.nan, 1.0], [np.nan, 1.0], dtype) == 0
    assert wrong([FLOAT8[dtype].largest, np.nan], [np.nan, 1.0], dtype) == 2


@BOTH
def test_zeros_do_not_pass_for_values_of_ordinary_size(dtype, scaled):
    assert wrong(np.zeros_like(scaled), scaled, dtype, DEFAULT_TOLERANCE[dtype]) > 0.99 * scaled.size
