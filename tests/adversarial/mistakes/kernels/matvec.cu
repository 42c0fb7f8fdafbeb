/* cutegen
idea = "one block a row, warps meet in shared memory"

[let]
rows = "A.shape[0]"
length = "A.shape[1]"

[[launch]]
kernel = "matvec"
grid   = ["rows"]
block  = ["256"]
args   = ["A", "B", "out", "length"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void matvec(float const* a, float const* b, float* out, int length) {
  __shared__ float warps[8];
  float const* row = a + long(blockIdx.x) * length;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < length; k += 256) sum += row[k] * b[k];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < 8 ? warps[threadIdx.x] : 0.0f;
  for (int k = 4; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
