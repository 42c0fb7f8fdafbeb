/* cutegen
idea = "a barrier that threads beyond the row never reach"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_length"
grid   = ["rows"]
block  = ["512"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void row_length(float const* x, float* out, int cols) {
  __shared__ float squares[512];
  float const* row = x + long(blockIdx.x) * cols;
  squares[threadIdx.x] = 0.0f;
  __syncthreads();
  if (threadIdx.x < cols) {
    squares[threadIdx.x] = row[threadIdx.x] * row[threadIdx.x];
    if (threadIdx.x % 2 == 0) __syncthreads();
  }
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < 512; ++i) sum += squares[i];
  if (threadIdx.x < cols) out[long(blockIdx.x) * cols + threadIdx.x] = row[threadIdx.x] / fmaxf(sqrtf(sum), 1e-12f);
}
