/* cutegen
idea = "SIMT product, 64 x 64 tiles, three stages of cp.async, 4 x 4 results a thread"

[let]
m = "A.shape[0]"
n = "B.shape[0]"
k = "A.shape[1]"

[params]
BK = 16
STAGES = { default = 3, values = [2, 3, 4] }

[[launch]]
kernel = "gemm<BK, STAGES>"
grid   = ["ceil_div(n, 64)", "ceil_div(m, 64)"]
block  = ["256"]
smem   = "2 * 64 * BK * STAGES * 4"
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// out = A @ B^T, rows of K contiguous; K is a multiple of 4. What lies outside a matrix is copied as zeros.
template <int BK, int STAGES>
__global__ __launch_bounds__(256) void gemm(float const* a, float const* b, float* out, int m, int n, int k) {
  extern __shared__ float shared[];
  auto stage = make_layout(make_shape(_64{}, Int<BK>{}, Int<STAGES>{}), make_stride(Int<BK>{}, _1{}, Int<64 * BK>{}));
  Tensor sa = make_tensor(make_smem_ptr(shared), stage);
  Tensor sb = make_tensor(make_smem_ptr(shared + 64 * BK * STAGES), stage);
  Tensor rows_a = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor rows_b = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  Tensor ga = local_tile(rows_a, make_shape(_64{}, Int<BK>{}), make_coord(blockIdx.y, _));
  Tensor gb = local_tile(rows_b, make_shape(_64{}, Int<BK>{}), make_coord(blockIdx.x, _));

  using Copy = Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint128_t>, float>;
  auto loaders = make_layout(make_shape(Int<1024 / BK>{}, Int<BK / 4>{}), LayoutRight{});
  auto loader = make_tiled_copy(Copy{}, loaders, make_layout(make_shape(_1{}, _4{})));
  auto mine = loader.get_slice(threadIdx.x);
  Tensor from_a = mine.partition_S(ga);
  Tensor from_b = mine.partition_S(gb);
  Tensor to_a = mine.partition_D(sa);
  Tensor to_b = mine.partition_D(sb);
  Tensor places = mine.partition_S(make_identity_tensor(make_shape(_64{}, Int<BK>{})));
  auto fetch = [&](int tile, int slot) {
    CUTE_UNROLL
    for (int i = 0; i < size<1>(places); ++i) {
      auto const at = places(0, i, 0);
      bool const inside = tile * BK + get<1>(at) < k;
      copy(loader.with(inside && blockIdx.y * 64 + get<0>(at) < m), from_a(_, i, _, tile), to_a(_, i, _, slot));
      copy(loader.with(inside && blockIdx.x * 64 + get<0>(at) < n), from_b(_, i, _, tile), to_b(_, i, _, slot));
    }
  };

  int const tiles = ceil_div(k, BK);
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    if (tile < tiles) fetch(tile, tile);
    cp_async_fence();
  }
  int const row = threadIdx.x / 16, col = threadIdx.x % 16;
  Tensor sums = make_tensor<float>(make_shape(_4{}, _4{}));
  clear(sums);
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (tile + STAGES - 1 < tiles) fetch(tile + STAGES - 1, (tile + STAGES - 1) % STAGES);
    cp_async_fence();
    int const slot = tile % STAGES;
    CUTE_UNROLL
    for (int p = 0; p < BK; ++p)
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i)
        CUTE_UNROLL
        for (int j = 0; j < 4; ++j) sums(i, j) += sa(row + 16 * i, p, slot) * sb(col + 16 * j, p, slot);
  }
  Tensor go = make_tensor(make_gmem_ptr(out), make_shape(m, n), make_stride(n, _1{}));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      auto const at = make_coord(int(blockIdx.y * 64 + row + 16 * i), int(blockIdx.x * 64 + col + 16 * j));
      if (elem_less(at, shape(go))) go(at) = sums(i, j);
    }
}
