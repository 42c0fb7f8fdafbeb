"""What the lean headers compute by value has the types that CuTe computes, over layouts drawn at random."""

import random
from collections.abc import Sequence
from math import prod

import pytest

from cutegen_core.execute.compiler import compile_server, lean_cute
from cutegen_core.execute.compiler.nvrtc import Nvrtc, NvrtcProgram
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
template <bool KNOWN, class Whole, class Shape, class Stride> void rest() {
  static_assert(!KNOWN || by_value::KnownComplete<Shape, Stride, Whole>::value);
  if constexpr (by_value::KnownComplete<Shape, Stride, Whole>::value) {
    using Own = by_value::Written<by_value::Complete<Shape, Stride, Whole>>;
    static_assert(is_same_v<decltype(complement(Layout<Shape, Stride>{}, Whole{})), Own>);
  }
}
template <class S, class D> void joined() {
  static_assert(by_value::KnownShape<S, D>::value);
  constexpr Layout<S, D> layout(S{}, filled<D>(7));
  constexpr auto own = by_value::make<by_value::Join<S, D, false>>(layout.stride());
  constexpr auto beyond = by_value::make<by_value::Join<S, D, true>>(layout.stride());
  constexpr auto cutes = coalesce(layout);
  constexpr auto cutes_beyond = detail::coalesce_x(layout);
  static_assert(is_same_v<decltype(cutes), decltype(own)> && cutes.stride() == own.stride());
  static_assert(is_same_v<decltype(cutes_beyond), decltype(beyond)> && cutes_beyond.stride() == beyond.stride());
}
template <bool KNOWN, class S, class D, class RS, class RD> void two() {
  static_assert(!KNOWN || by_value::KnownComposed<S, D, RS, RD>::value);
  if constexpr (by_value::KnownComposed<S, D, RS, RD>::value) {
    constexpr Layout<S, D> lhs(S{}, filled<D>(7));
    constexpr auto own = by_value::Composed<S, D, RS, RD>::get(lhs.stride());
    constexpr auto cutes = composition(lhs, Layout<RS, RD>{});
    static_assert(is_same_v<decltype(cutes), decltype(own)>);
    static_assert(cutes.stride() == own.stride());
  }
}
template <class Coord, class T> void part() {
  constexpr T whole = filled<T>(7);
  constexpr Coord coord = filled<Coord>(0);
  static_assert(by_place::Known<Coord, T>::value);
  constexpr auto sliced = by_place::keep<true, Coord>(whole);
  constexpr auto diced = by_place::keep<false, Coord>(whole);
  static_assert(is_same_v<decltype(slice(coord, whole)), remove_cv_t<decltype(sliced)>>);
  static_assert(is_same_v<decltype(dice(coord, whole)), remove_cv_t<decltype(diced)>>);
  static_assert(slice(coord, whole) == sliced && dice(coord, whole) == diced);
}
"""
FILLED = """  // a tuple of which the leaves that are no constants have values of their own
template <class T> struct Filled {
  static constexpr T make(int& next) {
    if constexpr (is_static<T>::value) { return T{}; } else { return T(next += 3); }
  }
};
template <class... T> struct Filled<tuple<T...>> {
  static constexpr tuple<T...> make(int& next) { return tuple<T...>{Filled<T>::make(next)...}; }
};
template <class T> constexpr T filled(int next) { return Filled<T>::make(next); }
"""
UNKNOWN = """  // what is no constant, or an error, is left to CuTe
static_assert(!by_value::Known<tuple<C<4>, int>, tuple<C<1>, C<4>>>::value);             // a dynamic shape
static_assert(!by_value::Known<tuple<C<4>, C<2>>, tuple<C<1>, long>>::value);            // a dynamic stride
static_assert(!by_value::Known<tuple<C<4>, C<2>>, tuple<E<0>, E<1>>>::value);            // strides that are coordinates
static_assert(!by_value::Known<C<4L>, C<1>>::value);                                     // a constant of another type
static_assert(!by_value::KnownComposed<tuple<C<4>, C<6>>, tuple<C<1>, C<8>>, C<6>, C<1>>::value);  // 4 divides no 6
static_assert(!by_value::KnownComposed<C<24>, C<1>, tuple<C<4>>, C<1>>::value);          // no layout
static_assert(!by_value::KnownComposed<C<24>, E<0>, C<4>, C<1>>::value);                 // strides that are coordinates
static_assert(!by_value::KnownComposed<C<24>, int, int, C<1>>::value);                   // only strides may be unknown
static_assert(!by_place::Known<tuple<int, Underscore>, tuple<int, int, int>>::value);    // other ranks
static_assert(!by_place::Known<tuple<tuple<int, Underscore>>, tuple<int>>::value);
static_assert(!by_place::Known<ArithmeticTuple<int, Underscore>, tuple<int, int>>::value);
static_assert(!by_value::KnownComplete<tuple<C<4>, C<4>>, tuple<C<1>, C<2>>, C<64>>::value);        // not injective
"""


def _nested(leaves: Sequence[str], chance: random.Random) -> str:
    if len(leaves) == 1:
        return leaves[0]
    cuts = sorted(chance.sample(range(1, len(leaves)), chance.randint(1, len(leaves) - 1)))
    parts = (leaves[i:j] for i, j in zip([0, *cuts], [*cuts, len(leaves)], strict=True))
    return f"tuple<{', '.join(_nested(part, chance) for part in parts)}>"


def _layout(chance: random.Random, *, compact: bool, dynamic: float = 0.0) -> tuple[str, list[int]]:
    """Return a layout's shape and stride as types, and its shape: the strides of a permutation, or any.

    Args:
        dynamic: the share of strides that are no constants.
    """
    shape = [chance.choice(FACTORS) for _ in range(chance.randint(1, 5))]
    stride, reached = [0] * len(shape), chance.choice((1, 1, 2))
    for i in chance.sample(range(len(shape)), len(shape)):
        stride[i], reached = reached, reached * shape[i]
    if not compact:
        stride = [chance.choice((0, d, d, 3 * d)) for d in stride]
    way = chance.random()
    shapes, strides = [f"C<{s}>" for s in shape], [f"C<{d}>" for d in stride]
    for i in range(len(strides)):
        if chance.random() < dynamic:
            strides[i] = chance.choice(("int", "int", "long", "unsigned"))
    return f"{_nested(shapes, random.Random(way))}, {_nested(strides, random.Random(way))}", shape


def _part(chance: random.Random) -> str:
    """Return a coordinate and a tuple of its profile: each leaf is kept or not, and some are tuples themselves."""
    count, way = chance.randint(2, 6), chance.random()
    coord = [chance.choice(("Underscore", "int", "C<0>")) for _ in range(count)]
    whole = [chance.choice(("C<3>", "int", "tuple<C<2>, int>", "tuple<C<2>, tuple<C<4>, C<5>>>")) for _ in range(count)]
    return f"{_nested(coord, random.Random(way))}, {_nested(whole, random.Random(way))}"


def _compile(program: str) -> str:
    nvrtc = Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
    own = "".join(f"#include <{header.name}>\n" for header in lean_cute.HEADERS) + "using namespace cute;\n"
    options = (*compile_server.compile_options("sm_90a"), "--fdevice-syntax-only")
    return nvrtc.compile(NvrtcProgram(compile_server.PROLOGUE + own + program, "layouts.cu"), options).log


@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.thorough)])
def test_results_are_cutes(count: int) -> None:
    chance = random.Random(count)
    calls = []
    for number in range(count):
        compact = number % 2 == 0
        (left, shape), known = _layout(chance, compact=compact), str(compact).lower()
        calls += [f"template void one<{known}, {left}>();"]
        calls += [f"template void rest<{known}, C<{chance.choice((1, 2, 5)) * prod(shape)}>, {left}>();"]
        calls += [f"template void rest<{known}, {_nested([f'C<{s}>' for s in (3, *shape, 5)], chance)}, {left}>();"]
        right, _ = _layout(chance, compact=compact)
        calls += [f"template void two<false, {left}, {right}>();"]
        calls += [f"template void two<true, {left}, C<{shape[0]}>, C<1>>();"]
        left, shape = _layout(chance, compact=True, dynamic=0.5)
        calls += [f"template void two<false, {left}, {right}>();", f"template void part<{_part(chance)}>();"]
        calls += [f"template void two<true, {left}, C<{shape[0]}>, C<1>>();", f"template void joined<{left}>();"]
    assert "error" not in (log := _compile("\n".join((FILLED, CHECKS, UNKNOWN, *dict.fromkeys(calls))))), log


def test_a_wrong_one_is_an_error() -> None:
    assert "static assertion failed" in _compile(UNKNOWN.replace("C<6>, C<1>>::value", "C<8>, C<1>>::value"))


def test_each_is_asked_for_before_cute_computes_it() -> None:
    lean = lean_cute.read_lean(toolchain.find_include_dirs()[0])["cute/layout.hpp"]
    asked = (
        "make<by_value::Join<Shape, Stride, false>",
        "make<by_value::Join<Shape, Stride, true>",
        "Invert<",
        "Composed<LShape",
        "Complete<Shape, ",
    )
    assert [lean.count(f"by_value::{name}") for name in asked] == [1] * 5
