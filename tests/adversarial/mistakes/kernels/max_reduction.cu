/* cutegen
idea = "one warp a row; NaN wins every comparison"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_max"
grid   = ["ceil_div(rows, 8)"]
block  = ["32", "8"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ float larger_of(float a, float b) { return a > b || isnan(a) ? a : b; }

__global__ __launch_bounds__(256) void row_max(float const* x, float* out, int rows, int cols) {
  int const row = blockIdx.x * 8 + threadIdx.y;
  if (row >= rows) return;
  float best = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += 32) best = larger_of(best, x[long(row) * cols + c]);
  for (int offset = 16; offset > 0; offset /= 2) best = larger_of(best, __shfl_xor_sync(0xffffffffu, best, offset));
  if (threadIdx.x == 0) out[row] = best;
}
