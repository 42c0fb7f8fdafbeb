/* cutegen
idea = "the array of partial sums has one place too few"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_length"
grid   = ["rows"]
block  = ["128"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void row_length(float const* x, float* out, int cols) {
  __shared__ float partial[3];
  float const* row = x + long(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 128) sum += row[i] * row[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = partial[0] + partial[1] + partial[2] + partial[3];
  float const scale = 1.0f / fmaxf(sqrtf(sum), 1e-12f);
  for (int i = threadIdx.x; i < cols; i += 128) out[long(blockIdx.x) * cols + i] = row[i] * scale;
}
