/* cutegen
idea = "one cooperative launch: every block adds its share, all meet at the grid's barrier, the first block finishes"

[let]
n = "x.numel"
blocks = "min(sm_count, ceil_div(n, 256))"

[[scratch]]
name  = "shares"
dtype = "float32"
shape = ["blocks"]

[[launch]]
kernel = "grand_total"
grid   = ["blocks"]
block  = ["256"]
cooperative = true
args   = ["x", "shares", "out", "n"]
*/
#include <cooperative_groups.h>
#include <cute/tensor.hpp>
using namespace cute;

__device__ float block_sum(float value) {
  __shared__ float partial[8];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0f;
  for (int warp = 0; warp < 8; ++warp) value += partial[warp];
  __syncthreads();
  return value;
}

__global__ __launch_bounds__(256) void grand_total(float const* x, float* shares, float* out, long n) {
  Tensor gx = make_tensor(make_gmem_ptr(x), make_layout(n));
  float sum = 0.0f;
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += long(gridDim.x) * 256) sum += gx(i);
  sum = block_sum(sum);
  if (threadIdx.x == 0) shares[blockIdx.x] = sum;
  cooperative_groups::this_grid().sync();
  if (blockIdx.x > 0) return;
  sum = 0.0f;
  for (int i = threadIdx.x; i < gridDim.x; i += 256) sum += shares[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[0] = sum;
}
