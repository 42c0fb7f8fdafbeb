/* cutegen
idea = "SIMT GEMM, 128x128x8 tiles, 8x8 a thread, through CuTe's copy and gemm"

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[0]"

[[launch]]
kernel = "sgemm"
grid   = ["m // 128", "n // 128"]
block  = ["256"]
args   = ["a", "b", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// out = a @ b^T, row-major, sizes multiples of the tile.
__global__ __launch_bounds__(256) void sgemm(float const* a, float const* b, float* out, int m, int n, int k) {
  auto ga = local_tile(make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{})),
                       make_shape(_128{}, _8{}), make_coord(blockIdx.x, _));
  auto gb = local_tile(make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{})),
                       make_shape(_128{}, _8{}), make_coord(blockIdx.y, _));
  auto gc = local_tile(make_tensor(make_gmem_ptr(out), make_shape(m, n), make_stride(n, _1{})),
                       make_shape(_128{}, _128{}), make_coord(blockIdx.x, blockIdx.y));
  __shared__ float sa_data[128 * 8];
  __shared__ float sb_data[128 * 8];
  auto sa = make_tensor(make_smem_ptr(sa_data), make_layout(make_shape(_128{}, _8{})));
  auto sb = make_tensor(make_smem_ptr(sb_data), make_layout(make_shape(_128{}, _8{})));

  auto loaders = make_layout(make_shape(_32{}, _8{}), LayoutRight{});
  auto from_a = local_partition(ga, loaders, threadIdx.x);
  auto from_b = local_partition(gb, loaders, threadIdx.x);
  auto to_a = local_partition(sa, loaders, threadIdx.x);
  auto to_b = local_partition(sb, loaders, threadIdx.x);

  auto threads = make_layout(make_shape(_16{}, _16{}));
  auto my_a = local_partition(sa, threads, threadIdx.x, Step<_1, X>{});
  auto my_b = local_partition(sb, threads, threadIdx.x, Step<X, _1>{});
  auto my_c = local_partition(gc, threads, threadIdx.x, Step<_1, _1>{});
  auto sums = make_tensor_like(my_c);
  clear(sums);
  for (int tile = 0; tile < size<2>(ga); ++tile) {
    copy(from_a(_, _, tile), to_a);
    copy(from_b(_, _, tile), to_b);
    __syncthreads();
    gemm(my_a, my_b, sums);
    __syncthreads();
  }
  copy(sums, my_c);
}
