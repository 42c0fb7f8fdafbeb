/* cutegen
idea = "one block a row: mean, then variance around it, then the scaled row"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = { default = 128, values = [64, 128, 256] }

[[launch]]
kernel = "layernorm<BLOCK>"
grid   = ["rows"]
block  = ["BLOCK"]
args   = ["x", "norm_weight", "norm_bias", "out", "cols", "norm_eps"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK>
__device__ float block_sum(float value) {
  __shared__ float warps[BLOCK / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < BLOCK / 32; ++warp) sum += warps[warp];
  __syncthreads();  // before the next sum takes their place
  return sum;
}

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void layernorm(
    float const* x, float const* weight, float const* bias, float* out, int cols, float eps) {
  float const* row = x + long(blockIdx.x) * cols;
  float sum = 0.0f, squares = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += row[c];
  float const mean = block_sum<BLOCK>(sum) / cols;
  for (int c = threadIdx.x; c < cols; c += BLOCK) squares += (row[c] - mean) * (row[c] - mean);
  float const variance = block_sum<BLOCK>(squares) / cols;
  float const scale = rsqrtf(variance + eps);
  for (int c = threadIdx.x; c < cols; c += BLOCK)
    out[long(blockIdx.x) * cols + c] = (row[c] - mean) * scale * weight[c] + bias[c];
}
