"""The comparison: honest kernels pass, reduced precision does not, and every mismatch says what it looks like."""

import numpy as np
import pytest

from cutegen_core.judge.correctness import OutputValues, compare, heatmap, measure, with_sum
from cutegen_core.judge.mismatch import find_pattern
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Tolerance

FLOAT32 = DEFAULT_TOLERANCE["float32"]


def judge(got, want, declared=None, dtype="float32", tolerance=FLOAT32, poison=None):
    got, want = np.asarray(got), np.asarray(want)
    declared = want.astype(np.float32).astype(np.float64) if declared is None and want.dtype.kind == "f" else declared
    poison = np.zeros(got.shape, dtype=bool) if poison is None else poison
    return compare("out", dtype, tolerance, OutputValues(got, want, declared, poison))


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def single(values):
    """Rounded to float32, as a kernel would have written it."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


# -- precision ---------------------------------------------------------------------------------------------------------


def tf32(values):
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def bfloat16(values):
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def sequential_product(a, b):
    """Multiply with one accumulator per output, in float32: the naive kernel."""
    total = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k : k + 1]
    return total


def product(k, draw):
    generator = np.random.default_rng(k)
    a, b = (draw(generator, shape).astype(np.float32) for shape in ((32, k), (k, 48)))
    return a, b, a.astype(np.float64) @ b.astype(np.float64), (a @ b).astype(np.float64)


@pytest.mark.parametrize(("narrow", "allowed"), [(True, True), (False, False)])
def test_a_float64_result_of_float32_arithmetic_may_err_as_the_reference_does(narrow, allowed):
    a, b = random(8, 64), random(64, 8, seed=1)
    want, got = a @ b, sequential_product(single(a), single(b)).astype(np.float64)
    declared = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64) if narrow else want
    assert (judge(got, want, declared, "float64", DEFAULT_TOLERANCE["float64"]).wrong == 0) == allowed


SIGNED = pytest.param(lambda g, shape: g.standard_normal(shape), id="signed")
UNSIGNED = pytest.param(lambda g, shape: g.random(shape), id="unsigned")
SCALED = pytest.param(lambda g, shape: 1000 * g.standard_normal(shape), id="scale-1000")


@pytest.mark.parametrize("draw", [SIGNED, UNSIGNED, SCALED])
@pytest.mark.parametrize("k", [1, 37, 130, 1021, 4096])
def test_a_naive_float32_product_passes_and_reduced_precision_does_not(k, draw):
    a, b, want, declared = product(k, draw)
    assert judge(sequential_product(a, b).astype(np.float64), want, declared).wrong == 0
    if k > 1:
        for lowered in (tf32, bfloat16):
            result = judge((lowered(a) @ lowered(b)).astype(np.float64), want, declared)
            assert result.wrong > 0, lowered.__name__
            assert result.error_ratio > 1


def test_a_tf32_product_within_allclose_is_called_what_it_is():
    a, b, want, declared = product(64, lambda g, shape: g.random(shape))
    result = judge(single(tf32(a) @ tf32(b)), want, declared, tolerance=Tolerance(1e-2, 1e-2))
    assert result.wrong > 0
    assert "TF32" in result.pattern


def test_half_precision_accumulation_in_a_float16_sum_fails():
    x = np.random.default_rng(0).random((16, 2048)).astype(np.float16)
    want = x.astype(np.float64).sum(1)
    declared = x.astype(np.float32).sum(1).astype(np.float16).astype(np.float64)
    total = np.zeros(16, dtype=np.float16)
    for k in range(x.shape[1]):
        total = (total + x[:, k]).astype(np.float16)
    tolerance = DEFAULT_TOLERANCE["float16"]
    assert judge(declared, want, declared, "float16", tolerance).wrong == 0
    assert judge(total.astype(np.float64), want, declared, "float16", tolerance).wrong > 0


def rounded(values, dtype):
    return bfloat16(values).astype(np.float64) if dtype == "bfloat16" else values.astype(np.float16).astype(np.float64)


HALF_FAULTS = {
    "small ones are zeros": lambda want: np.where(want < 5e-4, 0.0, want),
    "a constant on top": lambda want: want + 0.015,
    "a factor": lambda want: want * 1.05,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("fault", HALF_FAULTS)
def test_small_results_of_16_bits_are_held_against_their_own_size(dtype, fault):
    """A tolerance of the largest one would let them be anything. Rounding on the way to them is right."""
    scores = random(8, 1000)
    want = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    declared = rounded(want, dtype)
    tolerance = DEFAULT_TOLERANCE[dtype]
    twice = rounded(rounded(np.exp(scores), dtype) / np.exp(scores).sum(1, keepdims=True), dtype)
    assert judge(twice, want, declared, dtype, tolerance).wrong == 0
    assert judge(rounded(HALF_FAULTS[fault](want), dtype), want, declared, dtype, tolerance).wrong > 0


@pytest.mark.parametrize(("count", "is_sorted"), [(1000, False), (16384, False), (1000, True)])
def test_a_sum_in_sequence_is_right_and_one_in_halves_is_not(count, is_sorted):
    values = random(4, count).astype(np.float32)
    values = np.sort(values, axis=1) if is_sorted else values
    want = values.astype(np.float64).sum(1)
    precision = with_sum(measure(want, single(want)), "float32", count, is_sorted=is_sorted)

    def wrong(got):
        poison = np.zeros(got.shape, dtype=bool)
        return compare("out", "float32", FLOAT32, OutputValues(got, want, single(want), poison), precision).wrong

    assert wrong(np.add.accumulate(values, axis=1)[:, -1].astype(np.float64)) == 0
    assert wrong(bfloat16(values).astype(np.float64).sum(1)) > 0


def test_sums_of_a_large_mean_in_any_order_pass():
    x = (random(8, 4096) + 100).astype(np.float32)
    want, declared = x.astype(np.float64).sum(1), x.sum(1).astype(np.float64)
    forward = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
    assert judge(forward.astype(np.float64), want, declared).wrong == 0
    assert judge(np.cumsum(x[:, ::-1], axis=1, dtype=np.float32)[:, -1].astype(np.float64), want, declared).wrong == 0


def test_a_one_pass_variance_of_a_large_mean_fails_and_a_two_pass_one_passes():
    x = (random(8, 333) + 100).astype(np.float32)
    exact = x.astype(np.float64)
    want = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    mean = x.mean(1, keepdims=True)
    declared = ((x - mean) / x.std(1, keepdims=True)).astype(np.float64)
    one_pass = (x - mean) / np.sqrt((x * x).mean(1, keepdims=True, dtype=np.float32) - mean * mean)
    assert judge(declared, want, declared).wrong == 0
    assert judge(one_pass.astype(np.float64), want, declared).wrong > 0


def test_a_fast_exponential_of_two_ulp_passes():
    want = np.exp(random(64, 64))
    got = single(want) * (1 + 2 * 2.0**-23)
    assert judge(single(got), want).wrong == 0


def test_denormals_may_be_flushed_but_not_lost_in_noise():
    want = random(4, 33) * 1e-39
    assert judge(np.zeros_like(want), want).wrong == 0
    assert judge(np.full_like(want, 1e-30), want).wrong == want.size


def test_without_a_higher_precision_the_tolerance_alone_decides():
    want = random(8, 8)
    got = want * (1 + 5e-5)
    answer = OutputValues(got, want, None, np.zeros(got.shape, dtype=bool))
    assert compare("out", "float32", FLOAT32, answer).wrong == 0
    assert judge(got, want).wrong > 0


# -- NaN, Inf, integers, poison ----------------------------------------------------------------------------------------


def test_nan_and_inf_must_match():
    want = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert judge(want.copy(), want).wrong == 0
    result = judge(np.array([1.0, -np.inf, np.nan, np.inf]), want)
    assert (result.wrong, result.nan, result.inf) == (4, 1, 2)
    assert result.error_ratio == np.inf


def test_where_the_declared_precision_overflows_both_answers_are_right():
    want, declared = np.array([1e39, 2.0]), np.array([np.inf, 2.0])
    assert judge(np.array([np.inf, 2.0]), want, declared).wrong == 0
    assert judge(np.array([-np.inf, 2.0]), want, declared).wrong == 1


@pytest.mark.parametrize(("dtype", "large"), [("float16", 65504.0), ("bfloat16", 3.38e38), ("float32", 3.402823e38)])
def test_a_result_that_the_tolerance_lets_round_to_infinity_may_be_infinite(dtype, large):
    want = np.array([large, -large, large / 2, large * 1.001])
    usual = DEFAULT_TOLERANCE[dtype]
    assert judge(np.array([np.inf, -np.inf, large / 2, np.inf]), want, want, dtype, usual).wrong == 0
    assert judge(np.array([-np.inf, np.inf, np.inf, np.nan]), want, want, dtype, usual).wrong == 4


def test_integers_must_be_equal_to_the_reference_at_either_precision():
    want, declared = np.array([3, 5, 7]), np.array([3, 6, 7])
    assert judge(np.array([3, 6, 7]), want, declared, "int64").wrong == 0
    assert judge(np.array([3, 4, 7]), want, declared, "int64").wrong == 1


def test_large_integers_are_not_compared_as_floats():
    want = np.array([2**60 + 1])
    assert judge(np.array([2**60]), want, want, "int64").wrong == 1


def test_numbers_that_differ_are_shown_different():
    want = np.array([2**60 + 1, 3, 5, 7, 11])
    result = judge(want - (want > 100), want, want, "int64")
    assert f"got {2**60}, want {2**60 + 1}; a single element" in result.sentence
    result = judge(np.array([1 + 2.0**-33]), np.array([1.0]), dtype="float64", tolerance=Tolerance(1e-12, 1e-12))
    assert "got 1.0000000001164153, want 1;" in result.sentence


@pytest.mark.parametrize("size", [5, 600])
def test_an_error_that_float64_does_not_show_is_no_pattern(size):
    want = np.arange(size) * 2**50 + 2**60 + 1
    got = want.copy()
    got[3] -= 1
    assert judge(got, want, want, "int64").pattern == "a single element"


def test_whole_numbers_that_a_kernel_may_have_written_are_not_called_unwritten_only():
    want, got = np.array([[1, 2], [7, 4]], np.uint8), np.array([[1, 2], [255, 4]], np.uint8)
    result = judge(got, want, want, "uint8", poison=got == 255)
    assert result.pattern == "a single element; there: never written, or 255, which outputs hold before a run"
    everything = np.full((2, 2), -1)
    assert "or -1" in judge(everything, want.astype(int), want, "int64", poison=everything == -1).pattern


def test_untouched_poison_is_counted_apart_from_nan():
    want = random(4, 8)
    got, poison = want.copy(), np.zeros(want.shape, dtype=bool)
    poison[:, 5:] = True
    got[poison] = np.nan
    result = judge(single(got), want, poison=poison)
    assert (result.wrong, result.poison, result.nan) == (12, 12, 0)
    assert "only the last 3 columns" in result.pattern
    assert "never written" in result.pattern


def test_an_empty_output_is_right():
    result = judge(np.zeros((0, 4)), np.zeros((0, 4)))
    assert (result.wrong, result.total) == (0, 0)


# -- patterns ----------------------------------------------------------------------------------------------------------


def changed(want, where, value=lambda old: old + 1.0):
    got = single(want)
    got[where] = value(got[where])
    return got


WANT = random(37, 41)
SQUARE = random(24, 24, seed=1)
PATTERNS = [
    (WANT, changed(WANT, np.s_[:, 38:], lambda old: old * 0), "only the last 3 columns (from 38 of 41); there: 0"),
    (WANT, changed(WANT, np.s_[:, 40:]), "only the last column"),
    (WANT, changed(WANT, np.s_[32:]), "only the last 5 rows"),
    (WANT, changed(WANT, np.s_[::2]), "every second row, from 0 on"),
    (WANT, changed(WANT, np.s_[1::4]), "every fourth row, from 1 on"),
    (WANT, changed(WANT, np.s_[:, 3::8]), "every 8th column, from 3 on"),
    (WANT, changed(WANT, np.s_[7]), "only row 7"),
    (WANT, changed(WANT, np.s_[:, 9]), "only column 9"),
    (WANT, changed(WANT, np.s_[16:32, 8:16]), "only the tile of rows 16-31, columns 8-15"),
    (WANT, changed(WANT, np.s_[5, 6]), "a single element"),
    (WANT, single(WANT) * 0, "every element is 0"),
    (WANT, single(WANT) * 0 + 2.5, "every element is 2.5"),
    (WANT, single(WANT) * np.nan, "NaN everywhere"),
    (WANT, single(WANT) * 0.5, "got is want times 0.5"),
    (WANT, single(WANT) + 3, "got is want plus 3"),
    (WANT, np.roll(single(WANT), -1), "got is want shifted by 1 element"),
    (WANT, single(WANT)[:, ::-1], "columns reversed"),
    (WANT, single(WANT)[np.random.default_rng(2).permutation(37)], "permutation"),
    (SQUARE, single(SQUARE).T, "got is want transposed"),
    (SQUARE, np.where(np.tri(24, k=-1) > 0, 9.0 + single(SQUARE), single(SQUARE)), "only below the diagonal"),
    (WANT.reshape(-1), changed(WANT.reshape(-1), np.s_[1500:]), "only the tail: from flat element 1500 of 1517 on"),
    (WANT.reshape(-1), changed(WANT.reshape(-1), np.s_[256:512]), "only elements 256 to 511"),
]


@pytest.mark.parametrize("noise", [1e-4, 1e-3, 4e-3])
@pytest.mark.parametrize("order", ["as drawn", "sorted"])
def test_values_that_are_only_rounded_are_no_permutation(noise, order):
    generator = np.random.default_rng(7)
    want = generator.standard_normal((64, 512)).astype(np.float32)
    want = np.sort(want, axis=None).reshape(want.shape) if order == "sorted" else want
    got = (want * (1 + noise * generator.standard_normal(want.shape))).astype(np.float32)
    wrong = got != want
    pattern = find_pattern(got, want, wrong, np.zeros_like(wrong))
    assert not any(word in pattern for word in ("permutation", "transposed", "shifted", "reversed", "times"))
    assert "close to want, within" in pattern


@pytest.mark.parametrize(("want", "got", "words"), PATTERNS, ids=[p[2][:40] for p in PATTERNS])
def test_the_pattern_is_said_in_words(want, got, words):
    result = judge(got, want)
    assert result.wrong > 0
    assert words in result.pattern


def test_a_transposed_rectangle_is_recognised():
    want = random(6, 15)
    assert "transposed" in judge(single(want).T.reshape(6, 15), want).pattern


def test_scattered_errors_claim_no_pattern():
    got = single(WANT)
    spots = np.random.default_rng(3).choice(got.size, 60, replace=False)
    got.reshape(-1)[spots] += 1
    assert judge(got, WANT).pattern.startswith("scattered: 60 of 1517")


def test_mismatches_carry_coordinates_in_row_major_order():
    result = judge(changed(WANT, np.s_[20:22, 3:6]), WANT)
    assert [m.index for m in result.first] == [(20, 3), (20, 4), (20, 5), (21, 3), (21, 4), (21, 5)]
    assert result.first[0].got == pytest.approx(result.first[0].want + 1)


def test_the_heatmap_folds_any_shape_to_at_most_32_by_32():
    wrong = np.zeros((3, 50, 100), dtype=bool)
    wrong[2, 49, 99] = True
    folded = heatmap(wrong)
    assert (len(folded), len(folded[0])) == (32, 32)
    assert folded[-1][-1] > 0
    assert sum(map(sum, folded)) == pytest.approx(folded[-1][-1])
    assert heatmap(np.ones((2, 3), dtype=bool)) == ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("got", "want", "wrong"),
    [(1.0, 1.0, 0), (1.5, 1.0, 1), (np.inf, np.inf, 0), (np.nan, 1.0, 1), (np.nan, np.nan, 0), (2, 2, 0), (3, 2, 1)],
)
def test_an_output_of_one_number_is_judged_and_nothing_is_written_into_what_it_is_judged_by(got, want, wrong):
    dtype = "int32" if isinstance(want, int) else "float32"
    values = OutputValues(np.asarray(got), np.asarray(want), np.asarray(want), np.zeros((), dtype=bool))
    assert compare("out", dtype, FLOAT32, values).wrong == wrong
    np.testing.assert_array_equal([values.got, values.want, values.declared], [got, want, want])


def _causal_attention(seed, rounded=lambda p: p, lost=0):
    """Return causal attention of random heads in float64, its weights rounded, without each row's last `lost` keys."""
    draw = np.random.default_rng(seed)
    q, k, v = (draw.standard_normal((8, 128, 64)).astype(np.float16).astype(np.float64) for _ in range(3))
    scores = q @ k.transpose(0, 2, 1) / 8
    rows, keys = np.arange(128)[:, None], np.arange(128)
    scores[:, np.broadcast_to((keys > rows - lost) & (keys > 0), (128, 128))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return rounded(weights) @ v / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("dtype", "rounded"), [("float16", lambda p: p.astype(np.float16).astype(np.float64)), ("bfloat16", bfloat16)]
)
def test_weights_of_attention_may_be_rounded_to_halves(dtype, rounded):
    """A row of few keys is as large as its values, and small elements of it are off as much as large ones are. The
    reference, which sums floats, may be far more exact."""
    tolerance = DEFAULT_TOLERANCE[dtype]
    for seed in range(4):
        want = _causal_attention(seed)
        declared = rounded(want)
        assert judge(rounded(_causal_attention(seed, rounded)), want, declared, dtype, tolerance).wrong == 0
        assert judge(rounded(_causal_attention(seed, rounded, lost=1)), want, declared, dtype, tolerance).wrong > 0
