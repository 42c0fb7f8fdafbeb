// CuTe's algebra of layouts whose shapes and strides are constants: computed by value, in one function each, where CuTe
// computes by types, in dozens. The types of the results are CuTe's (tests/execute/compiler/test_static_layouts.py).
// A layout that is composed with such a one may have integers that are no constants as strides: only where they go to, and
// what they are multiplied by, is computed here.
// `lean_cute` puts a call in front of CuTe's functions; what is not known here goes on to them, their errors included.
#pragma once

namespace cute {
template <class Shape, class Stride> struct Layout;

namespace by_value {

// The constants of an int tuple, in order.
template <class T>
struct Leaves {
  enum { known = false, count = 0 };
};
template <int v>
struct Leaves<C<v>> {
  enum { known = true, count = 1 };
  CUTE_HOST_DEVICE static constexpr int* write(int* to) {
    *to = v;
    return to + 1;
  }
};
template <class... T>
struct Leaves<tuple<T...>> {
  enum { known = (sizeof...(T) > 0) && (bool(Leaves<T>::known) && ...), count = (0 + ... + int(Leaves<T>::count)) };
  CUTE_HOST_DEVICE static constexpr int* write(int* to) {
    ((to = Leaves<T>::write(to)), ...);
    return to;
  }
};

// The same of strides, of which some are no constants: these count once, and `from` says which they are. A multiple of
// such an integer has its type.
template <class T, class = void>
struct Strides : Leaves<T> {
  enum { constant = Leaves<T>::known };
  CUTE_HOST_DEVICE static constexpr int* place(int* from, int) {
    *from = -1;
    return from + 1;
  }
};
template <class T>
struct Strides<T, enable_if_t<is_same<T, int>::value || is_same<T, unsigned>::value || is_same<T, long>::value || is_same<T, long long>::value>> {
  enum { known = true, constant = false, count = 1 };
  CUTE_HOST_DEVICE static constexpr int* write(int* to) {
    *to = 1;
    return to + 1;
  }
  CUTE_HOST_DEVICE static constexpr int* place(int* from, int leaf) {
    *from = leaf;
    return from + 1;
  }
};
template <class... T>
struct Strides<tuple<T...>, void> {
  enum { known = (sizeof...(T) > 0) && (bool(Strides<T>::known) && ...), constant = (bool(Strides<T>::constant) && ...) };
  enum { count = (0 + ... + int(Strides<T>::count)) };
  CUTE_HOST_DEVICE static constexpr int* write(int* to) {
    ((to = Strides<T>::write(to)), ...);
    return to;
  }
  CUTE_HOST_DEVICE static constexpr int* place(int* from, int leaf) {
    (((from = Strides<T>::place(from, leaf)), (leaf += Strides<T>::count)), ...);
    return from;
  }
};

// A flat layout of at most N modes; `known` is false where CuTe has an error to report. A stride that is no constant is
// a multiple of the leaf `from` of the strides; constants have -1 there.
template <int N>
struct Modes {
  int shape[N], stride[N], from[N], rank = 0;
  bool known = true;
  CUTE_HOST_DEVICE constexpr void append(int s, int d, int leaf = -1) {
    shape[rank] = s;
    from[rank] = leaf;
    stride[rank++] = d;
  }
};

template <class Shape, class Stride>
CUTE_HOST_DEVICE constexpr auto read() {
  Modes<Leaves<Shape>::count> modes{};
  Leaves<Shape>::write(modes.shape);
  Strides<Stride>::write(modes.stride);
  Strides<Stride>::place(modes.from, 0);
  modes.rank = Leaves<Shape>::count;
  for (int i = 0; i < modes.rank; ++i) modes.known = modes.known && modes.shape[i] > 0;
  return modes;
}

// Joins modes from the last to the first, as detail::bw_coalesce does; BEYOND keeps what the function is outside its domain.
template <bool BEYOND = false, int N>
CUTE_HOST_DEVICE constexpr Modes<N> join(Modes<N> const& modes) {
  int const last = modes.rank - 1;
  Modes<N> back{};  // the last mode first
  back.append(BEYOND && modes.shape[last] == 1 ? 2 : modes.shape[last], modes.stride[last], modes.from[last]);
  for (int i = last - 1; i >= 0; --i) {
    int const s = modes.shape[i], d = modes.stride[i], from = modes.from[i], at = back.rank - 1;
    if (s == 1) continue;
    if (at == 0 && back.shape[0] == 1) {
      back.rank = 0;
      back.append(s, d, from);
    } else if (from == -1 && back.from[at] == -1 && s * d == back.stride[at]) {
      back.shape[at] *= s;
      back.stride[at] = d;
    } else {
      back.append(s, d, from);
    }
  }
  if (back.rank == 1 && back.shape[0] == 1) back.stride[0] = 0, back.from[0] = -1;
  Modes<N> joined{};
  joined.known = modes.known;
  for (int i = back.rank - 1; i >= 0; --i) joined.append(back.shape[i], back.stride[i], back.from[i]);
  return joined;
}

// The modes that a layout and one constant mode have together, as detail::composition_impl has them.
template <int N>
CUTE_HOST_DEVICE constexpr Modes<N + 1> compose(Modes<N> const& lhs, int shape, int stride) {
  Modes<N + 1> result{};
  result.known = lhs.known && shape > 0 && stride >= 0;
  if (stride == 0 || lhs.rank == 1) {
    result.append(shape, stride == 0 ? 0 : stride * lhs.stride[0], stride == 0 ? -1 : lhs.from[0]);
    return result;
  }
  for (int i = 0; result.known && i < lhs.rank - 1; ++i) {
    int const s = lhs.shape[i];
    result.known = stride % s == 0 || stride < s;
    int const next_shape = (s + stride - 1) / stride, next_stride = (stride + s - 1) / s;
    if (next_shape != 1 && shape != 1) {
      int const taken = next_shape < shape ? next_shape : shape;
      result.known = result.known && shape % taken == 0;
      result.append(taken, stride * lhs.stride[i], lhs.from[i]);
      shape /= taken;
    }
    stride = next_stride;
  }
  int const last = lhs.rank - 1;
  if (result.rank == 0 || shape != 1) result.append(shape, stride * lhs.stride[last], lhs.from[last]);
  return result;
}

template <int N>
CUTE_HOST_DEVICE constexpr Modes<N + 1> invert(Modes<N> const& layout) {
  Modes<N> const modes = join(layout);
  int order[N] = {}, before[N] = {}, product = 1;
  for (int i = 0; i < modes.rank; ++i) {
    order[i] = i;
    before[i] = product;
    product *= modes.shape[i];
  }
  for (int i = 0; i < modes.rank; ++i) {
    for (int j = i + 1; j < modes.rank; ++j) {
      if (modes.stride[order[j]] < modes.stride[order[i]]) {
        int const other = order[j];
        order[j] = order[i];
        order[i] = other;
      }
    }
  }
  Modes<N + 1> result{};
  result.known = modes.known;
  result.append(1, 0);
  for (int at = 0, stride = 1; at < modes.rank; ++at) {
    int const i = order[at];
    if (modes.stride[i] != stride) continue;
    result.append(modes.shape[i], before[i]);
    stride = modes.shape[i] * modes.stride[i];
  }
  return join(result);
}

// The layout of what a layout does not reach of a shape that has `count` leaves.
template <int N>
CUTE_HOST_DEVICE constexpr Modes<N + 1> complete(Modes<N> layout, int const* whole, int count) {
  for (int i = 0; i < layout.rank; ++i) layout.shape[i] = layout.stride[i] == 0 ? 1 : layout.shape[i];
  Modes<N> modes = join(layout);
  Modes<N + 1> result{};
  result.known = modes.known;
  for (int i = 0; i < count; ++i) result.known = result.known && whole[i] > 0;
  if (modes.rank == 1 && modes.stride[0] == 0) {
    int size = 1;
    for (int i = 0; i < count; ++i) size *= whole[i];
    result.append(size, size == 1 ? 0 : 1);
    return result;
  }
  int reached = 1;
  while (result.known && modes.rank > 0) {
    int least = 0;
    for (int i = 1; i < modes.rank; ++i) least = modes.stride[i] < modes.stride[least] ? i : least;
    int const s = modes.shape[least], d = modes.stride[least];
    result.known = d >= reached;
    result.append(d / reached, reached);
    reached = d * s;
    --modes.rank;
    for (int i = least; i < modes.rank; ++i) {
      modes.shape[i] = modes.shape[i + 1];
      modes.stride[i] = modes.stride[i + 1];
    }
  }
  int rest = 1;
  for (int i = 0, left = reached; result.known && i < count; ++i) {
    rest *= (whole[i] + left - 1) / left;
    left = (left + whole[i] - 1) / whole[i];
  }
  result.append(rest, rest == 1 ? 0 : reached);
  return join(result);
}


// The layout of the modes that Made::make() returns.
template <class Made, int... I>
CUTE_HOST_DEVICE constexpr auto write(int_sequence<I...>) {
  constexpr auto modes = Made::make();
  if constexpr (sizeof...(I) == 1) {
    return Layout<C<modes.shape[0]>, C<modes.stride[0]>>{};
  } else {
    return Layout<tuple<C<modes.shape[I]>...>, tuple<C<modes.stride[I]>...>>{};
  }
}

template <class Shape, class Stride, class = void>
struct Known {
  enum { value = false };
};
template <class Shape, class Stride>
struct Known<Shape, Stride, enable_if_t<Leaves<Shape>::known && Leaves<Stride>::known && int(Leaves<Shape>::count) == int(Leaves<Stride>::count)>> {
  enum { value = read<Shape, Stride>().known };
};
// The same, where strides may be integers that are no constants.
template <class Shape, class Stride, class = void>
struct KnownShape {
  enum { value = false };
};
template <class Shape, class Stride>
struct KnownShape<Shape, Stride, enable_if_t<Leaves<Shape>::known && Strides<Stride>::known && int(Leaves<Shape>::count) == int(Strides<Stride>::count)>> {
  enum { value = read<Shape, Stride>().known };
};

template <class Made>
using Written = decltype(write<Made>(make_int_sequence<Made::make().rank>{}));

template <int leaf, int I, class T>
CUTE_HOST_DEVICE constexpr auto leaf_below(T const& tuple);

// A leaf of a tuple.
template <int leaf, class T>
CUTE_HOST_DEVICE constexpr auto leaf_of(T const& value) {
  if constexpr (is_tuple<T>::value) {
    return leaf_below<leaf, 0>(value);
  } else {
    return value;
  }
}
template <int leaf, int I, class T>
CUTE_HOST_DEVICE constexpr auto leaf_below(T const& tuple) {
  constexpr int count = Strides<tuple_element_t<I, T>>::count;
  if constexpr (leaf < count) {
    return leaf_of<leaf>(get<I>(tuple));
  } else {
    return leaf_below<leaf - count, I + 1>(tuple);
  }
}
template <int factor, int leaf, class Stride>
CUTE_HOST_DEVICE constexpr auto multiply(Stride const& stride) {
  if constexpr (leaf == -1) {
    return C<factor>{};
  } else if constexpr (factor == 1) {
    return leaf_of<leaf>(stride);
  } else {
    return C<factor>{} * leaf_of<leaf>(stride);
  }
}
// The layout of the modes that Made::make() returns, which are multiples of what `stride` has.
template <class Made, class Stride, int... I>
CUTE_HOST_DEVICE constexpr auto write_with(Stride const& stride, int_sequence<I...>) {
  constexpr auto modes = Made::make();
  if constexpr (sizeof...(I) == 1) {
    return make_layout(C<modes.shape[0]>{}, multiply<modes.stride[0], modes.from[0]>(stride));
  } else {
    return make_layout(tuple<C<modes.shape[I]>...>{}, make_tuple(multiply<modes.stride[I], modes.from[I]>(stride)...));
  }
}
template <class Made, class Stride>
CUTE_HOST_DEVICE constexpr auto make(Stride const& stride) {
  if constexpr (Strides<Stride>::constant) {
    return Written<Made>{};
  } else {
    return write_with<Made>(stride, make_int_sequence<Made::make().rank>{});
  }
}

template <class Shape, class Stride, bool BEYOND>
struct Join {
  CUTE_HOST_DEVICE static constexpr auto make() { return join<BEYOND>(read<Shape, Stride>()); }
};
template <class Shape, class Stride>
struct Invert {
  CUTE_HOST_DEVICE static constexpr auto make() { return invert(read<Shape, Stride>()); }
};
template <class Shape, class Stride, class Whole>
struct Complete {
  CUTE_HOST_DEVICE static constexpr auto make() {
    int whole[Leaves<Whole>::count] = {};
    Leaves<Whole>::write(whole);
    return complete(read<Shape, Stride>(), whole, Leaves<Whole>::count);
  }
};
template <class Shape, class Stride, int s, int d>
struct Compose {
  CUTE_HOST_DEVICE static constexpr auto make() { return compose(join<true>(read<Shape, Stride>()), s, d); }
};

template <class Shape, class Stride, class RShape, class RStride>
struct Composed {
  enum { known = false };
};
template <class Shape, class Stride, int s, int d>
struct Composed<Shape, Stride, C<s>, C<d>> {
  using Made = Compose<Shape, Stride, s, d>;
  enum { known = Made::make().known };
  CUTE_HOST_DEVICE static constexpr auto get(Stride const& stride) { return by_value::make<Made>(stride); }
};
template <class Shape, class Stride, class... S, class... D>
struct Composed<Shape, Stride, tuple<S...>, tuple<D...>> {
  enum { known = (bool(Composed<Shape, Stride, S, D>::known) && ...) };
  CUTE_HOST_DEVICE static constexpr auto get(Stride const& stride) {
    return join_modes(Composed<Shape, Stride, S, D>::get(stride)...);
  }
  template <class... X, class... Y>
  CUTE_HOST_DEVICE static constexpr auto join_modes(Layout<X, Y> const&... modes) {
    if constexpr (Strides<Stride>::constant) {
      return Layout<tuple<X...>, tuple<Y...>>{};
    } else {
      return make_layout(tuple<X...>{}, tuple<Y...>{modes.stride()...});
    }
  }
};

template <class Shape, class Stride, class RShape, class RStride, class = void>
struct KnownComposed {
  enum { value = false };
};
template <class Shape, class Stride, class RShape, class RStride>
struct KnownComposed<Shape, Stride, RShape, RStride, enable_if_t<KnownShape<Shape, Stride>::value && Known<RShape, RStride>::value>> {
  enum { value = Composed<Shape, Stride, RShape, RStride>::known };
};
template <class Shape, class Stride, class Whole, class = void>
struct KnownComplete {
  enum { value = false };
};
template <class Shape, class Stride, class Whole>
struct KnownComplete<Shape, Stride, Whole, enable_if_t<Known<Shape, Stride>::value && Leaves<Whole>::known>> {
  enum { value = Complete<Shape, Stride, Whole>::make().known };
};

}  // namespace by_value
}  // namespace cute
