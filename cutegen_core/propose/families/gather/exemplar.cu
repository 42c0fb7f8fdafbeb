/* cutegen
idea = "as many lanes a row as it has 128-bit chunks, several rows a warp, four neighbours in flight"

[let]
rows = "out.shape[0]"
cols = "table.shape[1]"
chunks = "cols // 4"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }
UNROLL = { default = 4, values = [2, 4, 8] }

[[launch]]
kernel = "gather_mean<BLOCK, 8, 4, UNROLL>"
grid = ["ceil_div(rows, BLOCK // 8)", "ceil_div(chunks, 8)"]
block = ["BLOCK"]
args = ["table", "idx", "indptr", "out", "rows", "cols"]
when = "cols % 4 == 0 and chunks <= 8"

[[launch]]
kernel = "gather_mean<BLOCK, 32, 4, UNROLL>"
grid = ["ceil_div(rows, BLOCK // 32)", "ceil_div(chunks, 32)"]
block = ["BLOCK"]
args = ["table", "idx", "indptr", "out", "rows", "cols"]
when = "cols % 4 == 0 and chunks > 8"

[[launch]]
kernel = "gather_mean<BLOCK, 32, 1, UNROLL>"
grid = ["ceil_div(rows, BLOCK // 32)", "ceil_div(cols, 32)"]
block = ["BLOCK"]
args = ["table", "idx", "indptr", "out", "rows", "cols"]
when = "cols % 4 != 0"

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

// One chunk of V elements of a row, in one access.
template <int V, class T>
__device__ auto chunk_of(T* rows, long row, int chunks, int chunk) {
  return make_tensor(make_gmem_ptr(rows + (row * chunks + chunk) * V), make_layout(Int<V>{}));
}

// LANES threads own a row, or a part of it, and add up its entries in order: no atomics, one store. Past the end they load
// the first of the UNROLL neighbours again, so that no load waits for a condition; the bound on blocks leaves registers
// for all of them.
template <int BLOCK, int LANES, int V, int UNROLL>
__global__ __launch_bounds__(BLOCK, 1024 / BLOCK) void gather_mean(
    float const* table, long long const* idx, long long const* indptr, float* out, int rows, int cols) {
  using Wide = AutoVectorizingCopyWithAssumedAlignment<32 * V>;
  int const chunks = cols / V, chunk = blockIdx.y * LANES + threadIdx.x % LANES;
  long const row = long(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  if (chunk >= chunks || row >= rows) return;
  long const begin = indptr[row], end = indptr[row + 1];
  Tensor sum = make_tensor<float>(Int<V>{});
  clear(sum);
  CUTE_NO_UNROLL
  for (long entry = begin; entry < end; entry += UNROLL) {
    Tensor given = make_tensor<float>(make_shape(Int<V>{}, Int<UNROLL>{}));
    long from[UNROLL];
    CUTE_UNROLL
    for (int u = 0; u < UNROLL; ++u) from[u] = idx[entry + u < end ? entry + u : entry];
    CUTE_UNROLL
    for (int u = 0; u < UNROLL; ++u) copy(Wide{}, chunk_of<V>(table, from[u], chunks, chunk), given(_, u));
    CUTE_UNROLL
    for (int u = 0; u < UNROLL; ++u) {
      if (entry + u < end) {
        CUTE_UNROLL
        for (int v = 0; v < V; ++v) sum(v) += given(v, u);
      }
    }
  }
  float const part = 1.0f / static_cast<float>(end > begin ? end - begin : 1);
  CUTE_UNROLL
  for (int v = 0; v < V; ++v) sum(v) *= part;
  copy(Wide{}, sum, chunk_of<V>(out, row, chunks, chunk));
}
