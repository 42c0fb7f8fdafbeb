"""Values that the file does not draw: what is kept of its inputs, where a kernel can be judged, and what is right."""

import numpy as np
import pytest

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import OutputValues
from cutegen_core.records.problem import DEFAULT_TOLERANCE, SPECIAL_VALUES, WHOLE_VALUES, Values
from tests.later import Later

torch = Later("torch")
derived = Later("cutegen_core.judge.reference_process.derived_values")
expected = Later("cutegen_core.judge.reference_process.expected")
values_of = Later("cutegen_core.judge.reference_process.values")
worker = Later("cutegen_core.judge.reference_process.worker")


def source(forward: str, inputs: str = "torch.randn(6, 40)", arguments: str = "x", made: str = "") -> str:
    """Return a reference; `made` is the code of its one parameter or layer, `self.made`."""
    init = f"    def __init__(self):\n        super().__init__()\n        self.made = {made}\n" if made else ""
    return (
        f"import torch\nclass Model(torch.nn.Module):\n{init}"
        f"    def forward(self, {arguments}):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )


def drawn(text: str, values: Values, seed: int = 5):
    return derived.draw_derived(text, "here", values, seed)


def judge(text: str, values: Values, answer, seed: int = 5) -> int:
    """Return how many elements of `answer(inputs)` are wrong; -1 if no kernel can be judged on these values."""
    made = drawn(text, values, seed)
    want = expected.expect(made.live)
    found = derived.find_basis(made, want, values, text)
    if isinstance(found, str):
        return -1
    got = expected.to_array(answer(*made.live.tensors.values()))
    exact, declared = (expected.to_array(outputs[0]) for outputs in (want.exact, want.declared))
    given = OutputValues(got, exact, declared, np.zeros(got.shape, dtype=bool), found[0].others)
    return correctness.compare("out", "float32", DEFAULT_TOLERANCE["float32"], given, found[0].precision).wrong


def doubts(text: str) -> dict[Values, str]:
    return dict(derived.find_derived(text, "here", finite=False))


@pytest.mark.parametrize(
    ("inputs", "holds"),
    [
        ("torch.randn(8, 8).tril()", lambda t: (t.triu(1) == 0).all() and t.tril(-1).any()),
        ("(torch.rand(8, 8) < 0.5).float()", lambda t: set(t.unique().tolist()) == {0, 1}),
        ("torch.linspace(-1, 1, 40)", lambda t: torch.equal(t, torch.linspace(-1, 1, 40))),
        ("(lambda t: t + t.t())(torch.randn(8, 8))", lambda t: torch.equal(t, t.t())),
        ("torch.where(torch.rand(8, 8) < 0.5, -torch.inf, 0.0)", lambda t: not t.isnan().any() and not (t > 0).any()),
    ],
    ids=["triangle", "mask", "fixed", "symmetric", "masked"],
)
@pytest.mark.parametrize("values", [Values.WIDE, Values.NAN])
def test_the_structure_of_an_input_is_kept(inputs, holds, values):
    tensor = drawn(source("x * 2", inputs), values).live.tensors["x"]
    if values is Values.NAN and inputs.startswith("torch.randn(8, 8).tril"):
        assert (tensor.triu(1) == 0).all()
        assert tensor.isnan().any()
    else:
        assert holds(tensor)


def test_a_large_mean_leaves_the_zeros_of_a_triangle():
    live = values_of.instantiate_drawn(source("x * 2", "torch.randn(8, 8).tril()"), "here", Values.LARGE_MEAN, 5)
    tensor = live.tensors["x"]
    assert (tensor.triu(1) == 0).all()
    assert (tensor.tril() != 0).sum() == 36
    assert tensor.max() > 50


MASKED = "torch.randn(9, 40).masked_fill(torch.rand(9, 40) < 0.2, -torch.inf)"


@pytest.mark.parametrize("values", [v for v in Values if v not in (Values.GIVEN, Values.PARAMETERS, *WHOLE_VALUES)])
def test_the_infinities_of_an_input_stay_and_its_other_numbers_change(values):
    text = source("torch.softmax(x, 1)", MASKED)
    given = drawn(text, values).live.tensors["x"]
    before = derived.instantiate(text, "here", 5).tensors["x"]
    finite = before.isfinite()
    assert torch.equal(given[~finite], before[~finite])
    assert (given[finite] != before[finite]).any()
    if values is Values.INFINITE:
        assert given[finite].isinf().any()
        assert not (given == torch.inf).any(), "a sign that the file does not draw"
    else:
        assert not given[finite].isinf().any()


@pytest.mark.parametrize(
    ("forward", "values", "wrong"),
    [
        ("torch.softmax(x, 1)", Values.ALL_NEGATIVE, lambda x: x.exp() / x.exp().sum(1, keepdim=True)),
        ("torch.logsumexp(x, 1)", Values.HUGE, lambda x: x.clamp(max=6e4).logsumexp(1)),
        ("torch.logsumexp(x[:, :1], 1)", Values.HUGE, lambda x: x[:, 0].exp().log()),
    ],
    ids=["softmax", "logsumexp", "minus infinity"],
)
def test_what_is_wrong_only_beside_infinities_is_found(forward, values, wrong):
    text = source(forward, MASKED)
    assert judge(text, values, lambda x: eval(forward, {"torch": torch, "x": x})) == 0
    assert judge(text, values, wrong) > 0


CHOSEN = """import torch

class Model(torch.nn.Module):
    def forward(self, x, w, y, k, v):
        left = (x.diff(dim=2) @ w / 4).sort(0)[0]
        return torch.nn.functional.scaled_dot_product_attention(torch.cdist(left, y) / 4, k, v)

def get_inputs():
    sizes = (2, 9, 12), (11, 7), (2, 9, 7), (2, 12, 9), (2, 12, 9)
    return [torch.randn(size) for size in sizes]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("seed", [114, 3])  # the first is one of 150 that was
def test_a_column_that_a_softmax_chooses_by_what_cancelled_is_not_held_against_a_kernel(seed):
    """Its products are rounded as three of TF32 are, or as sums in another order."""
    torch.manual_seed(seed)

    def product(a, b):
        a, b = a.double(), b.double()
        made = a @ b
        return (made + (torch.rand_like(made) * 2 - 1) * 2.0**-22 * (a.abs() @ b.abs())).float()

    def kernel(x, w, y, k, v):
        left = (product(x.diff(dim=2), w) / 4).sort(0)[0].double()
        distances = (left[..., :, None, :] - y.double()[..., None, :, :]).square().sum(-1).sqrt().float() / 4
        scores = product(distances, k.mT) * distances.shape[-1] ** -0.5
        return product(scores.softmax(-1), v)

    assert judge(CHOSEN, Values.CANCELLING, kernel, seed) <= 0


def test_a_compensated_sum_may_end_in_nan_where_it_meets_an_infinity():
    """It subtracts infinity from infinity."""
    assert judge(source("x.sum(1)"), Values.INFINITE, lambda x: torch.where(x.isinf(), torch.nan, x).sum(1)) == 0


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        ("torch.nn.PReLU()", lambda x, w: torch.maximum(x, w * x)),
        ("torch.nn.BatchNorm1d(40).eval()", None),
    ],
)
def test_parameters_become_others(made, wrong):
    """A weight may be negative, or a slope above one, whatever the file begins with."""
    text = source("self.made(x)", made=made)
    given, other = derived.instantiate(text, "here", 5), drawn(text, Values.PARAMETERS).live
    weight = next(name for name in given.tensors if name.endswith("weight"))
    assert torch.equal(given.tensors["x"], other.tensors["x"])
    assert not torch.equal(given.tensors[weight], other.tensors[weight])
    assert other.tensors[weight].abs().max() > 1
    if wrong:
        right = expected.run(other, other.tensors)[0]
        assert not torch.equal(right, wrong(other.tensors["x"], other.tensors[weight]))


@pytest.mark.parametrize("made", ["torch.linspace(0, 1, 40)", "2 * torch.eye(40)", "(torch.rand(40) < 0.5).float()"])
def test_a_parameter_that_nobody_drew_is_moved(made):
    text = source("x * self.made.sum(0)", made=f"torch.nn.Parameter({made})")
    kept = derived.instantiate(text, "here", 5).tensors["made"]
    assert kept.unique().numel() == kept.numel()


def test_indices_that_differ_by_chance_may_be_equal():
    text = source("t[s]", "torch.randn(20000, 3), torch.randint(0, 20000, (12,))", "t, s")
    assert len(set(drawn(text, Values.HIGHEST).live.tensors["s"].tolist())) == 1


def test_a_doubt_about_one_output_leaves_the_others_judged():
    """The place of one of several NaN is open; what becomes of a NaN elsewhere is not."""
    text = source("x.relu(), x.argmax(1)")
    assert not doubts(text)[Values.NAN]
    made = drawn(text, Values.NAN)
    floats, places = derived.find_basis(made, expected.expect(made.live), Values.NAN, text)
    assert not floats.doubt
    assert "index of one of several" in places.doubt
    assert "index of one of several" in doubts(source("x.argmax(1)"))[Values.NAN]


def test_a_probability_stays_one():
    """`binary_cross_entropy` refuses more."""
    text = source(
        "torch.nn.functional.binary_cross_entropy(x, t)",
        "torch.rand(6, 40), (torch.rand(6, 40) < 0.5).float()",
        "x, t",
    )
    assert not doubts(text)[Values.SIGNED_ZEROS]


def test_infinities_of_an_input_excuse_no_others():
    assert "NaN or Inf" in doubts(source("torch.log(x.abs() - 1e3)", MASKED))[Values.NEAR_CONSTANT]


@pytest.mark.parametrize("values", WHOLE_VALUES)
def test_whole_numbers_keep_their_order_their_ends_and_that_they_differ(values):
    offsets = (
        "torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(1, 40, (9,)).sort()[0], torch.full((1,), 40)])"
    )
    text = source("x[o].sum() + x[p].sum()", f"torch.randn(41), {offsets}, torch.randperm(40)", "x, o, p")
    tensors = drawn(text, values).live.tensors
    bounds, permutation = tensors["o"].tolist(), tensors["p"].tolist()
    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[-1]) == (0, 40)
    assert sorted(permutation) == list(range(40))


def test_an_index_reaches_the_last_element_of_what_it_indexes():
    text = source("t[s]", "torch.randn(1000, 3), torch.randint(0, 1000, (60,))", "t, s")
    tensors = drawn(text, Values.HIGHEST).live.tensors
    assert set(tensors["s"].tolist()) == {999}
    assert set(drawn(text, Values.LOWEST).live.tensors["s"].tolist()) == {0}


def test_an_input_that_repeats_another_one_still_does():
    tensors = drawn(source("x @ y.t()", "*[torch.randn(6, 40)] * 2", "x, y"), Values.WIDE).live.tensors
    assert torch.equal(tensors["x"], tensors["y"])


@pytest.mark.parametrize("values", SPECIAL_VALUES)
def test_a_product_that_skips_zeros_need_not_give_nan(values):
    """Zero times NaN or infinity is NaN in the reference, but does not depend on what stands in its place."""
    text = source("a.tril() @ b", "torch.randn(12, 12), torch.randn(12, 12)", "a, b")

    def skipping(a, b):
        product = torch.zeros(12, 12)
        for r in range(12):
            for k in range(r + 1):
                product[r] += a[r, k] * b[k]
        return product

    assert judge(text, values, lambda a, b: a.tril() @ b) == 0
    assert judge(text, values, skipping) == 0
    assert judge(text, values, lambda a, b: (a.tril() @ b).nan_to_num(0, 0, 0)) > 0


@pytest.mark.parametrize(
    ("forward", "values", "wrong"),
    [
        ("torch.relu(x)", Values.NAN, lambda x: torch.where(x > 0, x, 0)),
        ("torch.relu(x)", Values.INFINITE, lambda x: x * (x > 0)),
        ("torch.amax(x, 1)", Values.NAN, lambda x: x.nan_to_num(-9).amax(1)),
        ("torch.amax(x, 1)", Values.ALL_NEGATIVE, lambda x: x.amax(1).clamp(min=0)),
        ("torch.softmax(x, 1)", Values.ALL_NEGATIVE, lambda x: x.exp() / x.exp().sum(1, keepdim=True)),
        ("torch.copysign(x.abs() + 1, x)", Values.SIGNED_ZEROS, lambda x: torch.where(x < 0, x - 1, x + 1)),
        ("torch.var(x, 1)", Values.NEGATIVE_MEAN, lambda x: (x.square().mean(1) - x.mean(1).square()) * 40 / 39),
        ("x.sum(1)", Values.CANCELLING, lambda x: x.bfloat16().float().sum(1)),
        ("x.sum(0)", Values.DOMINANT_ACROSS, lambda x: x[:-1].sum(0)),
        ("torch.round(x)", Values.EXACT, lambda x: torch.copysign((x.abs() + 0.5).floor(), x)),
        ("torch.round(x * 16)", Values.EXACT, lambda x: torch.copysign(((x * 16).abs() + 0.5).floor(), x)),
        ("torch.round(x / 0.0625)", Values.EXACT, lambda x: torch.copysign(((x * 16).abs() + 0.5).floor(), x)),
        ("(x * 20).round() / 4", Values.EXACT, lambda x: (x * 20 + 0.5).floor() / 4),
        ("torch.nn.functional.hardshrink(x, 0.75)", Values.EXACT, lambda x: torch.where(x.abs() >= 0.75, x, 0)),
        ("torch.where(x >= 37.25, 2 * x, x)", Values.EXACT, lambda x: torch.where(x > 37.25, 2 * x, x)),
        ("torch.hypot(x, x)", Values.VAST, lambda x: (x * x + x * x).sqrt()),
        ("torch.nan_to_num(x)", Values.NAN, lambda x: x),
        ("torch.nansum(x, 1)", Values.NAN, lambda x: x.sum(1)),
        ("torch.fmax(x, x.flip(0))", Values.NAN, lambda x: torch.maximum(x, x.flip(0))),
        ("torch.where(x != x, 7.0, x)", Values.NAN, lambda x: x),
        ("x + torch.isnan(x) * 3", Values.NAN, lambda x: x.nan_to_num(1)),
        ("torch.relu(x)", Values.INFINITE, lambda x: x - 0 * x),
        ("torch.amax(x, 1)", Values.INFINITE, lambda x: torch.where(x.amax(1).isinf(), torch.nan, x.amax(1))),
    ],
)
def test_what_is_wrong_only_there_is_found_and_the_reference_itself_is_right(forward, values, wrong):
    text = source(forward)
    assert judge(text, values, lambda x: eval(forward, {"torch": torch, "x": x})) == 0
    assert judge(text, values, wrong) > 0


@pytest.mark.parametrize(
    ("forward", "values", "words"),
    [
        ("torch.log(x.abs())", Values.CONSTANT, "NaN or Inf"),
        ("torch.sqrt(x)", Values.NEGATIVE_MEAN, "NaN or Inf"),
        ("torch.softmax(x, 1).argmax(1)", Values.CONSTANT, "index of one of several"),
        ("torch.argmax(x, 1)", Values.CONSTANT, ""),
        ("torch.min(x, 0)[1]", Values.SIGNED_ZEROS, ""),
        ("torch.topk(x, 2)[1]", Values.CONSTANT, "equal"),
        ("torch.sin(x)", Values.HUGE, "the reference error there"),
        ("(x * 1e6).round() * 1e-3", Values.WIDE, ""),
        ("x.to(torch.int32) / 4", Values.NAN, "cannot hold"),
        ("x.to(torch.int32) / 4", Values.HUGE, "cannot hold"),
        ("torch.zeros(6, 40, dtype=torch.int8).copy_(x) + x", Values.INFINITE, "cannot hold"),
        ("x.clamp(-9, 9).to(torch.int8) + x", Values.HUGE, ""),
        ("x.to(torch.bool) + x", Values.INFINITE, ""),
        ("(x * x * x).std(1)", Values.HUGE, "squares of a standard deviation"),
        ("(x.double() ** 9).std(1)", Values.HUGE, "squares of a standard deviation"),
        ("x.std(1).argmax()", Values.DENORMAL, "squares of a standard deviation"),
        ("torch.nn.functional.normalize((x * x * x)[:1], dim=0)", Values.HUGE, "squares of a norm"),
        ("(x * x * x).var(1) * 1e-30", Values.HUGE, "squares of a variance"),
        ("torch.layer_norm(x * x * x, (40,))", Values.HUGE, "squares of a layer norm"),
        ("torch.nn.functional.group_norm(x * x * x, 5)", Values.HUGE, "squares of a group norm"),
        (
            "torch.nn.functional.batch_norm(x * x * x, None, None, training=True)",
            Values.HUGE,
            "squares of a batch norm",
        ),
        ("torch.nn.functional.batch_norm(x, torch.zeros(40), torch.ones(40))", Values.HUGE, ""),
        ("x.cumprod(1)", Values.WIDE, "a cumulative product is more or less than float32 holds"),
        ("(x * 0.01).cumprod(1)", Values.INFINITE, "a cumulative product is more or less than float32 holds"),
        ("(x * 0.01).cumprod(1)", Values.SORTED, ""),
        ("x.prod()", Values.HUGE, "a product is more or less than float32 holds"),
        ("x.cumprod(1)", Values.SLICE, ""),
        ("x.double().prod(1)", Values.SPARSE, ""),
        ("torch.layer_norm(x, (40,))", Values.HUGE, ""),
        ("x.norm(p=1, dim=1)", Values.HUGE, ""),
        ("torch.searchsorted(x.abs().cumsum(1), x)", Values.NEGATIVE_MEAN, ""),
        ("torch.searchsorted(x.cumsum(1), x) * 1.0", Values.WIDE, "numbers that are not sorted"),
        ("x.std(1)", Values.HUGE, ""),
    ],
)
def test_values_that_say_nothing_are_left_out_with_a_reason(forward, values, words):
    found = doubts(source(forward))[values]
    assert words in found if words else not found


def test_what_8_bit_floats_make_of_too_much_is_left_open_within_a_reference_and_judged_where_it_is_the_result():
    within, given = source("x.to(torch.float8_e4m3fn).float() * 2"), source("(x * 2).to(torch.float8_e4m3fn)")
    assert "8-bit floats of what is more than these hold" in doubts(within)[Values.HUGE]
    assert not doubts(within)[Values.CONSTANT]
    assert "8-bit" not in doubts(given)[Values.HUGE]
    masked = expected.expect(derived.instantiate(source("(x > 0).to(torch.float8_e5m2).float() + x"), "here", 5))
    assert (masked.why, masked.undefined) == ("", "")


@pytest.mark.parametrize("forward", ["torch.round(x / 0.3)", "torch.round(x.exp())", "x >= 0.1", "x.var(1)"])
def test_values_that_are_met_exactly_are_left_out_where_a_result_is_rounded(forward):
    """Whoever computes in another order is on the other side of a threshold. That this is so is no news."""
    assert Values.EXACT not in doubts(source(forward))


def test_a_problem_of_finite_numbers_has_no_special_values():
    kinds = {values for values, _ in derived.find_derived(source("torch.relu(x)"), "here", finite=True)}
    assert Values.WIDE in kinds
    assert not kinds & set(SPECIAL_VALUES)


@pytest.mark.parametrize("forward", ["x.sum(1)", "torch.layer_norm(x, (40,))", "x @ x.t()", "torch.logsumexp(x, 1)"])
def test_another_order_of_the_same_sums_is_right(forward):
    """The reference's own order may be lucky: its error there is no yardstick for an honest kernel."""
    text = source(forward)
    for values, doubt in doubts(text).items():
        for seed in range(1) if not doubt else ():
            other = torch.randperm(40)
            assert judge(text, values, lambda x: eval(forward, {"torch": torch, "x": x}), seed) <= 0
            if "layer" not in forward:
                assert judge(text, values, lambda x, o=other: eval(forward, {"torch": torch, "x": x[:, o]}), seed) <= 0


@pytest.mark.parametrize("values", [Values.DENORMAL, Values.CONSTANT])
def test_what_a_rounding_on_the_way_leaves_where_values_cancel_is_right(values):
    """All elements of a row are one number: minus their mean that is zero, or the rounding of the mean."""
    text = source("torch.nn.functional.layer_norm(x + 0.25, (40,))")

    def normed(x, off):
        shifted = x + 0.25
        mean = shifted.mean(1, keepdim=True) * (1 + off)
        return (shifted - mean) * torch.rsqrt((shifted - mean).square().mean(1, keepdim=True) + 1e-5)

    assert judge(text, values, lambda x: normed(x, 2.0**-23)) == 0
    assert judge(text, values, lambda x: normed(x, -(2.0**-23))) == 0
    assert judge(text, values, lambda x: normed(x, 2.0**-11)) > 0


def test_a_number_that_fills_a_mask_is_not_rounded_on_the_way():
    """A row that is masked throughout has the same weight everywhere, whatever the number."""
    text = source(
        "x.masked_fill(mask, -1e9).softmax(1)", "torch.randn(6, 40), torch.rand(6, 40) < 0.3", "x, mask"
    )  # fmt: skip
    assert doubts(text)[Values.HIGHEST] == ""
    masked = judge(text, Values.HIGHEST, lambda x, mask: torch.zeros_like(x))
    assert masked > 0


def test_where_the_declared_precision_overflows_nan_is_right():
    text = source("x * 3e38 * 0.5 * x")
    kinds = [values for values, doubt in doubts(text).items() if not doubt and values not in SPECIAL_VALUES]

    def overflows(x):
        made = x * 3e38 * 0.5 * x
        return torch.where(made.isinf(), torch.nan, made)

    assert any(judge(text, values, lambda x: x * 3e38 * 0.5 * x) == 0 for values in kinds)
    assert all(judge(text, values, overflows) <= 0 for values in kinds)


@pytest.mark.parametrize("values", [Values.WIDE, Values.CONSTANT, Values.SORTED, Values.EXACT])
def test_sorted_floats_stay_sorted(values):
    text = source("torch.searchsorted(x[0], x[1])", "torch.sort(torch.randn(6, 40))[0]")
    made = drawn(text, values).live.tensors["x"]
    assert (made.diff() >= 0).all()
    assert not torch.equal(made, drawn(text, Values.SPARSE).live.tensors["x"])


@pytest.mark.parametrize(("count", "ends"), [(5, (0, 17)), (4000, (1, 13))])
def test_few_indices_are_extended_to_both_ends_and_many_are_not(count, ends):
    """Many indices that leave out the first and the last row do so on purpose."""
    text = source("x[i]", f"torch.randn(18, 4), torch.randint(1, 14, ({count},))", "x, i")
    seen = [drawn(text, values).live.tensors["i"] for values in (Values.LOWEST, Values.HIGHEST)]
    assert (int(seen[0].min()), int(seen[1].max())) == ends


def test_a_maximum_of_products_that_begins_at_zero_shows():
    text = source("(x @ y.t()).amax(1)", "torch.randn(6, 40), torch.randn(7, 40)", "x, y")
    assert judge(text, Values.NEGATIVE_MEAN, lambda x, y: (x @ y.t()).amax(1)) == 0
    assert judge(text, Values.NEGATIVE_MEAN, lambda x, y: (x @ y.t()).amax(1).clamp(min=0)) == 6


ATTENTION = source(
    "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "torch.randn(2, 9, 8), torch.randn(2, 9, 8), torch.randn(2, 9, 8)", "q, k, v",
)  # fmt: skip


def attend_earlier_keys(q, k, v):
    """Causal attention row by row: later keys are never read, and a key of score minus infinity has no weight."""
    out = torch.zeros_like(v)
    for head, row in np.ndindex(*q.shape[:2]):
        scores = (k[head, : row + 1] @ q[head, row]) * q.shape[-1] ** -0.5
        seen = scores != -torch.inf
        if seen.any():
            out[head, row] = scores[seen].softmax(0) @ v[head, : row + 1][seen]
    return out


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(40), marks=pytest.mark.thorough)], ids=len)
@pytest.mark.parametrize("values", sorted(SPECIAL_VALUES))
def test_attention_may_leave_out_masked_keys_whatever_they_hold(values, seeds):
    assert all(judge(ATTENTION, values, attend_earlier_keys, seed) == 0 for seed in seeds)


def test_attention_to_masked_keys_is_wrong_on_infinite_values_too():
    def ignores_mask(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    assert any(judge(ATTENTION, Values.INFINITE, ignores_mask, seed) > 0 for seed in range(20))


def test_whole_numbers_that_nearly_all_are_equal_are_one_that_the_file_draws():
    target = "torch.where(torch.rand(40) < 0.3, -100, torch.randint(0, 7, (40,)))"
    text = source("torch.nn.functional.cross_entropy(x, t)", f"torch.randn(40, 7), {target}", "x, t")
    for seed in range(20):
        given = drawn(text, Values.HUB, seed).live.tensors["t"]
        assert all(one == -100 or 0 <= one < 7 for one in given.tolist())


def test_values_that_the_reference_refuses_say_nothing():
    """It takes them at the seed that was tried, and fails at others."""
    text = source("x * (1 / (len(set(t.tolist())) > 2))", "torch.randn(4), torch.randint(0, 9, (4,))", "x, t")
    asked = {"operation": "expected", "source": text, "origin": "here", "derived": True, "digest": "", "samples": False}
    threads = torch.get_num_threads()
    with torch.no_grad():  # a worker has a process of its own, and leaves gradients and threads off
        reply = worker.ReferenceHandler().handle({**asked, "values": Values.LOWEST.value, "seed": 5}).message
    torch.set_num_threads(threads)
    assert reply == {"expected": []}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_bytes_of_what_is_no_longer_side_by_side(count):
    strided = torch.arange(12.0).view(6, 2)[:count, 1]
    assert values_of.to_bytes(strided).tobytes() == strided.clone().numpy().tobytes()


LIMITED = source(
    "torch.nn.functional.hardtanh("
    "torch.nn.functional.mish(torch.nn.functional.conv_transpose2d(x, w, stride=2)) + 0.5)",
    "torch.rand(2, 64, 8, 8), torch.randn(64, 64, 3, 3) / 24", "x, w",
)  # fmt: skip


def toward_zero(exact):
    rounded = exact.float()
    return torch.where(rounded.double().abs() > exact.abs(), torch.nextafter(rounded, torch.zeros(())), rounded)


def limited(total):
    return torch.nn.functional.hardtanh(torch.nn.functional.mish(total) + 0.5)


def limited_as_by_tensor_cores(x, w):
    """Add up eight channels at a time; each sum so far is cut off, twice over."""
    total = torch.zeros(2, 64, 17, 17)
    for first in range(0, 64, 8):
        for tap in range(9):
            taps = torch.zeros(8, 64, 9, dtype=torch.float64)
            taps[..., tap] = w[first : first + 8].flatten(2)[..., tap].double()
            part = x[:, first : first + 8].double()
            added = torch.nn.functional.conv_transpose2d(part, taps.unflatten(2, (3, 3)), stride=2)
            total = toward_zero(toward_zero(total.double() + added).double() * (1 - 2**-24))
    return limited(total)


def limited_in_tf32(x, w):
    x, w = ((t.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) for t in (x, w))
    return limited(torch.nn.functional.conv_transpose2d(x, w, stride=2))


def test_where_few_elements_show_an_error_an_honest_sum_is_right():
    """Most elements are limited, and one dominates each sum: what the reference errs in the others is luck."""
    wrong = {seed: judge(LIMITED, Values.DOMINANT, limited_as_by_tensor_cores, seed) for seed in range(8)}
    assert set(wrong.values()) == {0}, wrong
    rough = [judge(LIMITED, Values.DOMINANT, limited_in_tf32, seed) for seed in range(8)]
    assert sum(found > 0 for found in rough) >= 6, rough
