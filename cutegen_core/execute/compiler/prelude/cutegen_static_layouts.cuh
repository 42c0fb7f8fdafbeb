// CuTe's algebra of layouts whose shapes and strides are constants: computed by value, in one function each, where CuTe
// computes by types, in dozens. The types of the results are CuTe's (tests/execute/compiler/test_static_layouts.py).
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

// A flat layout of at most N modes; `known` is false where CuTe has an error to report.
template <int N>
struct Modes {
  int shape[N], stride[N], rank = 0;
  bool known = true;
  CUTE_HOST_DEVICE constexpr void append(int s, int d) {
    shape[rank] = s;
    stride[rank++] = d;
  }
};

template <class Shape, class Stride>
CUTE_HOST_DEVICE constexpr auto read() {
  Modes<Leaves<Shape>::count> modes{};
  Leaves<Shape>::write(modes.shape);
  Leaves<Stride>::write(modes.stride);
  modes.rank = Leaves<Shape>::count;
  for (int i = 0; i < modes.rank; ++i) modes.known = modes.known && modes.shape[i] > 0;
  return modes;
}

// Joins modes from the last to the first, as detail::bw_coalesce does; BEYOND keeps what the function is outside its domain.
template <bool BEYOND = false, int N>
CUTE_HOST_DEVICE constexpr Modes<N> join(Modes<N> const& modes) {
  int const last = modes.rank - 1;
  Modes<N> back{};  // the last mode first
  back.append(BEYOND && modes.shape[last] == 1 ? 2 : modes.shape[last], modes.stride[last]);
  for (int i = last - 1; i >= 0; --i) {
    int const s = modes.shape[i], d = modes.stride[i], at = back.rank - 1;
    if (s == 1) continue;
    if (at == 0 && back.shape[0] == 1) {
      back.shape[0] = s;
      back.stride[0] = d;
    } else if (s * d == back.stride[at]) {
      back.shape[at] *= s;
      back.stride[at] = d;
    } else {
      back.append(s, d);
    }
  }
  if (back.rank == 1 && back.shape[0] == 1) back.stride[0] = 0;
  Modes<N> joined{};
  joined.known = modes.known;
  for (int i = back.rank - 1; i >= 0; --i) joined.append(back.shape[i], back.stride[i]);
  return joined;
}

// The modes that a layout and one constant mode have together, as detail::composition_impl has them.
template <int N>
CUTE_HOST_DEVICE constexpr Modes<N + 1> compose(Modes<N> const& lhs, int shape, int stride) {
  Modes<N + 1> result{};
  result.known = lhs.known && shape > 0 && stride >= 0;
  if (stride == 0 || lhs.rank == 1) {
    result.append(shape, stride == 0 ? 0 : stride * lhs.stride[0]);
    return result;
  }
  for (int i = 0; result.known && i < lhs.rank - 1; ++i) {
    int const s = lhs.shape[i];
    result.known = stride % s == 0 || stride < s;
    int const next_shape = (s + stride - 1) / stride, next_stride = (stride + s - 1) / s;
    if (next_shape != 1 && shape != 1) {
      int const taken = next_shape < shape ? next_shape : shape;
      result.known = result.known && shape % taken == 0;
      result.append(taken, stride * lhs.stride[i]);
      shape /= taken;
    }
    stride = next_stride;
  }
  if (result.rank == 0 || shape != 1) result.append(shape, stride * lhs.stride[lhs.rank - 1]);
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

template <int N>
CUTE_HOST_DEVICE constexpr Modes<N + 1> complete(Modes<N> layout, int whole) {
  for (int i = 0; i < layout.rank; ++i) layout.shape[i] = layout.stride[i] == 0 ? 1 : layout.shape[i];
  Modes<N> modes = join(layout);
  Modes<N + 1> result{};
  result.known = modes.known && whole > 0;
  if (modes.rank == 1 && modes.stride[0] == 0) {
    result.append(whole, whole == 1 ? 0 : 1);
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
  int const rest = result.known ? (whole + reached - 1) / reached : 1;
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

template <class Made>
using Written = decltype(write<Made>(make_int_sequence<Made::make().rank>{}));

template <class Shape, class Stride, bool BEYOND>
struct Join {
  CUTE_HOST_DEVICE static constexpr auto make() { return join<BEYOND>(read<Shape, Stride>()); }
};
template <class Shape, class Stride>
struct Invert {
  CUTE_HOST_DEVICE static constexpr auto make() { return invert(read<Shape, Stride>()); }
};
template <class Shape, class Stride, int WHOLE>
struct Complete {
  CUTE_HOST_DEVICE static constexpr auto make() { return complete(read<Shape, Stride>(), WHOLE); }
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
  enum { known = Compose<Shape, Stride, s, d>::make().known };
  CUTE_HOST_DEVICE static constexpr auto get() { return Written<Compose<Shape, Stride, s, d>>{}; }
};
template <class Shape, class Stride, class... S, class... D>
struct Composed<Shape, Stride, tuple<S...>, tuple<D...>> {
  enum { known = (bool(Composed<Shape, Stride, S, D>::known) && ...) };
  CUTE_HOST_DEVICE static constexpr auto get() { return join_types(Composed<Shape, Stride, S, D>::get()...); }
  template <class... X, class... Y>
  CUTE_HOST_DEVICE static constexpr auto join_types(Layout<X, Y> const&...) { return Layout<tuple<X...>, tuple<Y...>>{}; }
};

template <class Shape, class Stride, class RShape, class RStride, class = void>
struct KnownComposed {
  enum { value = false };
};
template <class Shape, class Stride, class RShape, class RStride>
struct KnownComposed<Shape, Stride, RShape, RStride, enable_if_t<Known<Shape, Stride>::value && Known<RShape, RStride>::value>> {
  enum { value = Composed<Shape, Stride, RShape, RStride>::known };
};
template <class Shape, class Stride, class Whole, class = void>
struct KnownComplete {
  enum { value = false };
};
template <class Shape, class Stride, int whole>
struct KnownComplete<Shape, Stride, C<whole>, enable_if_t<Known<Shape, Stride>::value>> {
  enum { value = Complete<Shape, Stride, whole>::make().known };
};

}  // namespace by_value
}  // namespace cute
