/* cutegen
idea = "32 columns a block, eight threads share a column and meet in shared memory"

[let]
batch = "x.shape[0]"
rows = "x.shape[1]"
cols = "x.shape[2]"

[[launch]]
kernel = "column_sums"
grid   = ["ceil_div(cols, 32)", "batch"]
block  = ["32", "8"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void column_sums(float const* x, float* out, int rows, int cols) {
  __shared__ float partial[8][32];
  int const col = blockIdx.x * 32 + threadIdx.x;
  float const* matrix = x + long(blockIdx.y) * rows * cols;
  float sum = 0.0f;
  if (col < cols)
    for (int r = threadIdx.y; r < rows; r += 8) sum += matrix[long(r) * cols + col];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= cols) return;
  for (int k = 1; k < 8; ++k) sum += partial[k][threadIdx.x];
  out[long(blockIdx.y) * cols + col] = sum;
}
