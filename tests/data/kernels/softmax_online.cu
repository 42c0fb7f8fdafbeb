/* cutegen
idea = "one warp a row, largest value and sum in one pass"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "softmax_online"
grid   = ["ceil_div(rows, 4)"]
block  = ["128"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void softmax_online(float const* x, float* out, int rows, int cols) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Tensor source = make_tensor(make_gmem_ptr(x + long(row) * cols), make_layout(cols));
  Tensor target = make_tensor(make_gmem_ptr(out + long(row) * cols), make_layout(cols));
  float largest = -FLT_MAX, sum = 0.0f;
  for (int i = lane; i < cols; i += 32) {
    float const larger = fmaxf(largest, source(i));
    sum = sum * expf(largest - larger) + expf(source(i) - larger);
    largest = larger;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    float const other = __shfl_xor_sync(0xffffffffu, largest, offset);
    float const others = __shfl_xor_sync(0xffffffffu, sum, offset);
    float const larger = fmaxf(largest, other);
    sum = sum * expf(largest - larger) + others * expf(other - larger);
    largest = larger;
  }
  for (int i = lane; i < cols; i += 32) target(i) = expf(source(i) - largest) / sum;
}
