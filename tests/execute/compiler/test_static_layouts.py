"""What the lean headers compute by value has the types that CuTe computes, over layouts drawn at random."""

import random
from math import prod

import pytest

from cutegen_core.execute.compiler import compile_server, lean_cute
from cutegen_core.execute.compiler.nvrtc import Nvrtc
from cutegen_core.machine import toolchain

FACTORS = (1, 2, 3, 4, 6, 8, 16)
CHECKS = """
template <bool KNOWN, class Shape, class Stride> void one() {
  using L = Layout<Shape, Stride>;
  static_assert(!KNOWN || by_value::Known<Shape, Stride>::value);
  if constexpr (by_value::Known<Shape, Stride>::value) {
    static_assert(is_same_v<decltype(coalesce(L{})), by_value::Written<by_value::Join<Shape, Stride, false>>>);
    static_assert(is_same_v<decltype(detail::coalesce_x(L{})), by_value::Written<by_value::Join<Shape, Stride, true>>>);
    static_assert(is_same_v<decltype(right_inverse(L{})), by_value::Written<by_value::Invert<Shape, Stride>>>);
  }
}
template <bool KNOWN, int WHOLE, class Shape, class Stride> void rest() {
  static_assert(!KNOWN || by_value::KnownComplete<Shape, Stride, Int<WHOLE>>::value);
  if constexpr (by_value::KnownComplete<Shape, Stride, Int<WHOLE>>::value) {
    using Own = by_value::Written<by_value::Complete<Shape, Stride, WHOLE>>;
    static_assert(is_same_v<decltype(complement(Layout<Shape, Stride>{}, Int<WHOLE>{})), Own>);
  }
}
template <bool KNOWN, class S, class D, class RS, class RD> void two() {
  static_assert(!KNOWN || by_value::KnownComposed<S, D, RS, RD>::value);
  if constexpr (by_value::KnownComposed<S, D, RS, RD>::value) {
    using Own = decltype(by_value::Composed<S, D, RS, RD>::get());
    static_assert(is_same_v<decltype(composition(Layout<S, D>{}, Layout<RS, RD>{})), Own>);
  }
}
"""
UNKNOWN = """  // what is no constant, or an error, is left to CuTe
static_assert(!by_value::Known<tuple<C<4>, int>, tuple<C<1>, C<4>>>::value);             // a dynamic shape
static_assert(!by_value::Known<tuple<C<4>, C<2>>, tuple<C<1>, long>>::value);            // a dynamic stride
static_assert(!by_value::Known<tuple<C<4>, C<2>>, tuple<E<0>, E<1>>>::value);            // strides that are coordinates
static_assert(!by_value::Known<C<4L>, C<1>>::value);                                     // a constant of another type
static_assert(!by_value::KnownComposed<tuple<C<4>, C<6>>, tuple<C<1>, C<8>>, C<6>, C<1>>::value);  // 4 divides no 6
static_assert(!by_value::KnownComposed<C<24>, C<1>, tuple<C<4>>, C<1>>::value);          // no layout
static_assert(!by_value::KnownComplete<tuple<C<4>, C<4>>, tuple<C<1>, C<2>>, C<64>>::value);        // not injective
"""


def _nested(leaves: list[int], chance: random.Random) -> str:
    if len(leaves) == 1:
        return f"C<{leaves[0]}>"
    cuts = sorted(chance.sample(range(1, len(leaves)), chance.randint(1, len(leaves) - 1)))
    parts = (leaves[i:j] for i, j in zip([0, *cuts], [*cuts, len(leaves)], strict=True))
    return f"tuple<{', '.join(_nested(part, chance) for part in parts)}>"


def _layout(chance: random.Random, *, compact: bool) -> tuple[str, list[int]]:
    """Return a layout's shape and stride as types, and its shape: the strides of a permutation, or any."""
    shape = [chance.choice(FACTORS) for _ in range(chance.randint(1, 5))]
    stride, reached = [0] * len(shape), chance.choice((1, 1, 2))
    for i in chance.sample(range(len(shape)), len(shape)):
        stride[i], reached = reached, reached * shape[i]
    if not compact:
        stride = [chance.choice((0, d, d, 3 * d)) for d in stride]
    way = chance.random()
    return f"{_nested(shape, random.Random(way))}, {_nested(stride, random.Random(way))}", shape


def _compile(program: str) -> str:
    nvrtc = Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
    own = f"#include <{lean_cute.STATIC_LAYOUTS.name}>\nusing namespace cute;\n"
    options = (*compile_server.compile_options("sm_90a"), "--fdevice-syntax-only")
    return nvrtc.compile(compile_server.PROLOGUE + own + program, "layouts.cu", options).log


@pytest.mark.parametrize("count", [16, pytest.param(300, marks=pytest.mark.thorough)])
def test_results_are_cutes(count: int) -> None:
    chance = random.Random(count)
    calls = []
    for number in range(count):
        compact = number % 2 == 0
        (left, shape), known = _layout(chance, compact=compact), str(compact).lower()
        calls += [f"template void one<{known}, {left}>();"]
        calls += [f"template void rest<{known}, {chance.choice((1, 2, 5)) * prod(shape)}, {left}>();"]
        right, _ = _layout(chance, compact=compact)
        calls += [f"template void two<false, {left}, {right}>();"]
        calls += [f"template void two<true, {left}, C<{shape[0]}>, C<1>>();"]
    assert "error" not in (log := _compile("\n".join((CHECKS, UNKNOWN, *dict.fromkeys(calls))))), log


def test_a_wrong_one_is_an_error() -> None:
    assert "static assertion failed" in _compile(UNKNOWN.replace("C<6>, C<1>>::value", "C<8>, C<1>>::value"))


def test_each_is_asked_for_before_cute_computes_it() -> None:
    lean = lean_cute.read_lean(toolchain.find_include_dirs()[0])["cute/layout.hpp"]
    asked = (
        "Join<Shape, Stride, false>",
        "Join<Shape, Stride, true>",
        "Invert<",
        "Composed<LShape",
        "Complete<Shape, ",
    )
    assert [lean.count(f"by_value::{name}") for name in asked] == [1] * 5
