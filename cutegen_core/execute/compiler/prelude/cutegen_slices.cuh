// Which elements of a tuple a coordinate keeps: found by types, and taken from the tuple at once, where CuTe goes through
// a dozen functions for each level of the coordinate. The types of the results are CuTe's
// (tests/execute/compiler/test_static_layouts.py); `lean_cute` asks for them before CuTe's `slice` and `dice`.
#pragma once

#include <cute/container/tuple.hpp>
#include <cute/numeric/integer_sequence.hpp>

namespace cute {
struct Underscore;

namespace by_place {

// Where an element of a nested tuple is, and several of these.
template <int... I>
struct Place {};
template <class... P>
struct Places {};

template <class... P>
struct Joined {
  using type = Places<>;
};
template <class... P>
struct Joined<Places<P...>> {
  using type = Places<P...>;
};
template <class... P, class... Q, class... Rest>
struct Joined<Places<P...>, Places<Q...>, Rest...> : Joined<Places<P..., Q...>, Rest...> {};

// The places of a coordinate that are underscores, or those that are not.
template <bool UNDERSCORES, class Coord, class At = Place<>>
struct Kept {
  using type = conditional_t<is_same<Coord, Underscore>::value == UNDERSCORES, Places<At>, Places<>>;
};
template <bool UNDERSCORES, class Coord, class At, class I>
struct KeptBelow;
template <bool UNDERSCORES, class... Coord, int... At, int... I>
struct KeptBelow<UNDERSCORES, tuple<Coord...>, Place<At...>, int_sequence<I...>>
    : Joined<typename Kept<UNDERSCORES, Coord, Place<At..., I>>::type...> {};
template <bool UNDERSCORES, class... Coord, class At>
struct Kept<UNDERSCORES, tuple<Coord...>, At>
    : KeptBelow<UNDERSCORES, tuple<Coord...>, At, make_int_sequence<sizeof...(Coord)>> {};

// Whether a coordinate consists of CuTe's tuples and numbers, and a tuple has its profile.
template <class Coord, class T>
struct Known {
  enum { value = !is_tuple<Coord>::value };
};
template <bool SAME_RANK, class Coord, class T>
struct KnownModes {
  enum { value = false };
};
template <class... Coord, class... T>
struct KnownModes<true, tuple<Coord...>, tuple<T...>> {
  enum { value = (bool(Known<Coord, T>::value) && ...) };
};
template <class... Coord, class... T>
struct Known<tuple<Coord...>, tuple<T...>> : KnownModes<sizeof...(Coord) == sizeof...(T), tuple<Coord...>, tuple<T...>> {};

// The types of the elements at some places, and the elements.
template <class T, class At>
struct Element {
  using type = T;
};
template <class T, int I, int... Is>
struct Element<T, Place<I, Is...>> : Element<tuple_element_t<I, T>, Place<Is...>> {};
template <class T, class At>
struct Elements;
template <class T, class... At>
struct Elements<T, Places<At...>> {
  using type = tuple<typename Element<T, At>::type...>;
};

template <int I, int... Is, class T>
CUTE_HOST_DEVICE constexpr auto take(T const& from, Place<I, Is...>) {
  if constexpr (sizeof...(Is) == 0) {
    return get<I>(from);
  } else {
    return take(get<I>(from), Place<Is...>{});
  }
}
template <class R, class T, class... At>
CUTE_HOST_DEVICE constexpr R take_all(T const& from, Places<At...>) {
  return R{take(from, At{})...};
}
template <bool UNDERSCORES, class Coord, class T>
CUTE_HOST_DEVICE constexpr auto keep(T const& from) {
  using Whence = typename Kept<UNDERSCORES, Coord>::type;
  using R = typename Elements<T, Whence>::type;
  if constexpr (is_static<R>::value) {
    return R{};
  } else {
    return take_all<R>(from, Whence{});
  }
}

}  // namespace by_place
}  // namespace cute
