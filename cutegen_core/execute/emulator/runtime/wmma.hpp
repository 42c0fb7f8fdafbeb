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

namespace details {

// The whole matrix of which every lane has a part, row by row; 16 bytes of each lane at a time.
template <class F>
inline void collect(F const& f, typename F::element_type (&whole)[F::rows * F::columns], int line, const char* file) {
  using T = typename F::element_type;
  constexpr int most = 16 / sizeof(T), each = most < F::num_elements ? most : F::num_elements;
  for (int first = 0; first < F::num_elements; first += each) {
    T all[32 * each];
    emu_warp_gather(~0u, &f.x[first], all, sizeof(T) * each, line, file);
    for (int i = 0; i < 32 * each; ++i) whole[(first + i % each) * 32 + i / each] = all[i];
  }
}

}  // namespace details

template <int M, int N, int K, class T, class U, class LA, class LB, class C, class D>
inline void mma_sync(fragment<accumulator, M, N, K, D>& d, fragment<matrix_a, M, N, K, T, LA> const& a,
                     fragment<matrix_b, M, N, K, U, LB> const& b, fragment<accumulator, M, N, K, C> const& c, EMU_HERE) {
  typename fragment<matrix_a, M, N, K, T, LA>::element_type whole_a[M * K];
  typename fragment<matrix_b, M, N, K, U, LB>::element_type whole_b[K * N];
  details::collect(a, whole_a, line, file);
  details::collect(b, whole_b, line, file);
  for (int i = 0; i < d.num_elements; ++i) {
    int const element = i * 32 + emu::lane(), row = element / N, column = element % N;
    typename details::sum_of<C>::type sum = 0;
    for (int k = 0; k < K; ++k) sum += details::operand<T>(whole_a[row * K + k]) * details::operand<U>(whole_b[k * N + column]);
    d.x[i] = details::narrowed<D>(sum + details::value(c.x[i]));
  }
}

}  // namespace nvcuda::wmma
