/* cutegen
idea = "every row added to its segment with atomics, the segments zeroed by a launch of their own"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[numerics]
deterministic = false

[[launch]]
kernel = "clear_out"
grid   = ["ceil_div(out.numel, 256)"]
block  = ["256"]
args   = ["out", "out.numel"]

[[launch]]
kernel = "segment_sum"
grid   = ["ceil_div(rows, 8)", "ceil_div(cols, 32)"]
block  = ["32", "8"]
args   = ["x", "segment", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void clear_out(float* out, int count) {
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) out[i] = 0.0f;
}

__global__ void segment_sum(float const* x, long long const* segment, float* out, int rows, int cols) {
  int const row = blockIdx.x * 8 + threadIdx.y, col = blockIdx.y * 32 + threadIdx.x;
  if (row >= rows || col >= cols) return;
  Tensor gx = make_tensor(make_gmem_ptr(x), make_shape(rows, cols), make_stride(cols, _1{}));
  atomicAdd(&out[segment[row] * cols + col], gx(row, col));
}
