/* cutegen
idea = "blocks add to the same segment without atomics"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "clear_out"
grid   = ["ceil_div(out.numel, 256)"]
block  = ["256"]
args   = ["out", "out.numel"]

[[launch]]
kernel = "segment_sum"
grid   = ["rows"]
block  = ["64"]
args   = ["x", "segment", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void clear_out(float* out, int count) {
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) out[i] = 0.0f;
}

__global__ void segment_sum(float const* x, long long const* segment, float* out, int cols) {
  int const col = threadIdx.x;
  if (col < cols) out[segment[blockIdx.x] * cols + col] += x[blockIdx.x * cols + col];
}
