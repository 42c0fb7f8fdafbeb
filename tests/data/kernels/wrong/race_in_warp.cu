/* cutegen
idea = "threads of one warp exchange through shared memory without __syncwarp"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_length"
grid   = ["rows"]
block  = ["32"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void row_length(float const* x, float* out, int cols) {
  __shared__ float volatile partial[32];
  float const* row = x + long(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 32) sum += row[i] * row[i];
  partial[threadIdx.x] = sum;
  for (int half = 16; half > 0; half /= 2)
    if (threadIdx.x < half) partial[threadIdx.x] = partial[threadIdx.x] + partial[threadIdx.x + half];
  float const scale = 1.0f / fmaxf(sqrtf(partial[0]), 1e-12f);
  for (int i = threadIdx.x; i < cols; i += 32) out[long(blockIdx.x) * cols + i] = row[i] * scale;
}
