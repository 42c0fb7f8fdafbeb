/* cutegen
idea = "one block a row, the sum kept in shared memory between the passes"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "add_rmsnorm"
grid   = ["rows"]
block  = ["256"]
smem   = "cols * 4"
args   = ["x", "residual", "weight", "out", "cols", "eps"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void add_rmsnorm(
    float const* x, float const* residual, float const* weight, float* out, int cols, float eps) {
  extern __shared__ float total[];
  __shared__ float warps[8];
  long const first = long(blockIdx.x) * cols;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 256) {
    float const value = x[first + c] + residual[first + c];
    total[c] = value;
    squares += value * value;
  }
  for (int offset = 16; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, offset);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0.0f;
  for (int warp = 0; warp < 8; ++warp) squares += warps[warp];
  float const scale = rsqrtf(squares / cols + eps);
  for (int c = threadIdx.x; c < cols; c += 256) out[first + c] = total[c] * scale * weight[c];
}
