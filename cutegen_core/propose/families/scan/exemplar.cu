/* cutegen
idea = "a short run a thread by 128-bit copies, warps by shuffles, the block carries its total to the next chunk"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = { default = 256, values = [128, 256, 512, 1024] }

[[launch]]
kernel = "cumsum_kernel<BLOCK, 4>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out", "rows", "cols"]
when = "cols % 4 == 0"

[[launch]]
kernel = "cumsum_kernel<BLOCK, 1>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out", "rows", "cols"]
when = "cols % 4 != 0"

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

// Adds up one value a thread: every thread gets the sum of those before it, and of all.
template <int BLOCK>
__device__ float sum_before(float value, float& total) {
  static_assert(BLOCK % 32 == 0, "BLOCK must be a multiple of 32");
  __shared__ float sums[BLOCK / 32];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  CUTE_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    float const other = __shfl_up_sync(0xffffffffu, value, distance);
    value = lane >= distance ? other + value : value;
  }
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  float before = 0.0f;
  total = 0.0f;
  CUTE_UNROLL
  for (int w = 0; w < BLOCK / 32; ++w) {
    before = w == warp ? total : before;
    total += sums[w];
  }
  float const other = __shfl_up_sync(0xffffffffu, value, 1);
  __syncthreads();
  return lane == 0 ? before : before + other;
}

// One block, one row, in chunks of BLOCK runs of V elements: a thread scans its run in registers, the block scans the runs'
// sums, and what came before is carried from chunk to chunk.
template <int BLOCK, int V>
__global__ __launch_bounds__(BLOCK) void cumsum_kernel(float const* x, float* out, int rows, int cols) {
  using Wide = AutoVectorizingCopyWithAssumedAlignment<32 * V>;
  auto const table = make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols)));
  Tensor gX = zipped_divide(make_tensor(make_gmem_ptr(x), table)(_, blockIdx.x), make_shape(Int<V>{}));  // (V, runs)
  Tensor gOut = zipped_divide(make_tensor(make_gmem_ptr(out), table)(_, blockIdx.x), make_shape(Int<V>{}));
  Tensor run = make_tensor<float>(Int<V>{});

  int const runs = cols / V;
  float carry = 0.0f;
  for (int first = 0; first < runs; first += BLOCK) {
    int const mine = first + threadIdx.x;
    clear(run);
    if (mine < runs) copy(Wide{}, gX(_, mine), run);
    CUTE_UNROLL
    for (int v = 1; v < V; ++v) run(v) += run(v - 1);
    float total;
    float const before = carry + sum_before<BLOCK>(run(V - 1), total);
    carry += total;
    CUTE_UNROLL
    for (int v = 0; v < V; ++v) run(v) += before;
    if (mine < runs) copy(Wide{}, run, gOut(_, mine));
  }
}
