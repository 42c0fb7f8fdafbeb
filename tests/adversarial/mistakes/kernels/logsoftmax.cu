/* cutegen
idea = "one warp a row, shuffles for the maximum and the sum"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "logsoftmax"
grid   = ["ceil_div(rows, 4)"]
block  = ["128"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void logsoftmax(float const* x, float* out, int rows, int cols) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float const* source = x + long(row) * cols;
  float largest = -INFINITY, sum = 0.0f;
  for (int c = lane; c < cols; c += 32) largest = fmaxf(largest, source[c]);
  for (int k = 16; k > 0; k /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, k));
  for (int c = lane; c < cols; c += 32) sum += expf(source[c] - largest);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  float const shift = logf(sum);
  for (int c = lane; c < cols; c += 32) out[long(row) * cols + c] = source[c] - largest - shift;
}
