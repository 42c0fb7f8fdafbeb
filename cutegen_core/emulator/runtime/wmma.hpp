// Stands in for CUDA's <mma.h>: nvcuda::wmma on half, bfloat16, tf32 and bytes. How a fragment's elements are dealt to the
// lanes is nobody's business but the hardware's; here lane l has the elements l, l + 32, ... of the matrix, row by row.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "intrinsics.hpp"
#include "threads.hpp"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32;
}

namespace details {

// What a fragment's element is kept as, and its value in a product.
template <class T> struct stored { using type = T; };
template <> struct stored<precision::tf32> { using type = float; };

template <class T> struct sum_of { using type = double; };
template <> struct sum_of<int> { using type = int; };

inline double value(__half x) { return __half2float(x); }
inline double value(__nv_bfloat16 x) { return __bfloat162float(x); }
inline double value(float x) { return x; }
inline double value(double x) { return x; }
inline int value(int x) { return x; }
inline int value(signed char x) { return x; }
inline int value(unsigned char x) { return x; }

// The tensor core looks at the upper 19 bits of a tf32 operand.
template <class T, class V> inline auto operand(V x) {
  if constexpr (std::is_same_v<T, precision::tf32>) return value(emu::bits<float>(emu::bits<unsigned>(x) & 0xFFFFE000u));
  else return value(x);
}

template <class T> inline T narrowed(double x) { return (T)x; }
template <> inline __half narrowed<__half>(double x) { return __float2half((float)x); }

template <class Use, int M, int N, int K> struct extents;
template <int M, int N, int K> struct extents<matrix_a, M, N, K> { static constexpr int rows = M, columns = K; };
template <int M, int N, int K> struct extents<matrix_b, M, N, K> { static constexpr int rows = K, columns = N; };
template <int M, int N, int K> struct extents<accumulator, M, N, K> { static constexpr int rows = M, columns = N; };

// Element i of the matrix, wherever its lane keeps it; other lanes' fragments lie on their own stacks.
template <class F>
__attribute__((no_sanitize("thread"))) inline auto element(const void* const* lanes, int i) {
  return ((const F*)lanes[i % 32])->x[i / 32];
}

}  // namespace details

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr int rows = details::extents<Use, M, N, K>::rows, columns = details::extents<Use, M, N, K>::columns;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  using element_type = typename details::stored<T>::type;
  using storage_element_type = element_type;
  element_type x[num_elements];
};

inline float __float_to_tf32(float x) {
  auto const bits = emu::bits<unsigned>(x);
  return emu::bits<float>((bits + 0x1000) & 0xFFFFE000u);
}

template <class Use, int M, int N, int K, class T, class Layout, class V>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, V const& value) {
  for (auto& x : f.x) x = value;
}

namespace details {

template <class F>
inline size_t place(int element, unsigned stride, bool by_rows) {
  int const row = element / F::columns, column = element % F::columns;
  return by_rows ? (size_t)row * stride + column : (size_t)column * stride + row;
}

template <class F, class P>
inline void load(F& f, P const* from, unsigned stride, bool by_rows, int line, const char* file) {
  for (int i = 0; i < F::num_elements; ++i) f.x[i] = from[place<F>(i * 32 + emu::lane(), stride, by_rows)];
  emu_warp_sync(~0u, line, file);
}

}  // namespace details

template <class Use, int M, int N, int K, class T, class Layout, class P>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, P const* from, unsigned stride, EMU_HERE) {
  details::load(f, from, stride, std::is_same_v<Layout, row_major>, line, file);
}
template <int M, int N, int K, class T, class P>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, P const* from, unsigned stride, layout_t layout, EMU_HERE) {
  details::load(f, from, stride, layout == mem_row_major, line, file);
}
template <int M, int N, int K, class T, class P>
inline void store_matrix_sync(P* to, fragment<accumulator, M, N, K, T> const& f, unsigned stride, layout_t layout, EMU_HERE) {
  using F = fragment<accumulator, M, N, K, T>;
  emu_warp_sync(~0u, line, file);
  for (int i = 0; i < F::num_elements; ++i) to[details::place<F>(i * 32 + emu::lane(), stride, layout == mem_row_major)] = f.x[i];
}

// Every lane shows the others where its fragments lie; none goes on before all have read them.
template <int M, int N, int K, class T, class U, class LA, class LB, class C, class D>
__attribute__((no_sanitize("thread"))) inline void mma_sync(
    fragment<accumulator, M, N, K, D>& d, fragment<matrix_a, M, N, K, T, LA> const& a, fragment<matrix_b, M, N, K, U, LB> const& b,
    fragment<accumulator, M, N, K, C> const& c, EMU_HERE) {
  using A = fragment<matrix_a, M, N, K, T, LA>;
  using B = fragment<matrix_b, M, N, K, U, LB>;
  struct Mine { const void *a, *b; } const mine = {&a, &b};
  Mine all[32];
  emu_warp_gather(~0u, &mine, all, sizeof mine, line, file);
  const void *as[32], *bs[32];
  for (int lane = 0; lane < 32; ++lane) as[lane] = all[lane].a, bs[lane] = all[lane].b;
  fragment<accumulator, M, N, K, D> result;
  for (int i = 0; i < result.num_elements; ++i) {
    int const element = i * 32 + emu::lane(), row = element / N, column = element % N;
    typename details::sum_of<C>::type sum = 0;
    for (int k = 0; k < K; ++k)
      sum += details::operand<T>(details::element<A>(as, row * K + k)) *
             details::operand<U>(details::element<B>(bs, k * N + column));
    result.x[i] = details::narrowed<D>(sum + details::value(c.x[i]));
  }
  emu_warp_sync(~0u, line, file);
  d = result;
}

}  // namespace nvcuda::wmma
