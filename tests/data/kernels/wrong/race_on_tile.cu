/* cutegen
idea = "the next tile overwrites shared memory while slow warps still read the last"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "transpose"
grid   = ["ceil_div(cols, 32)"]
block  = ["32", "8"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void transpose(float const* x, float* out, int rows, int cols) {
  __shared__ float tile[32][33];
  int const left = blockIdx.x * 32;
  for (int top = 0; top < rows; top += 32) {
    for (int r = threadIdx.y; r < 32; r += 8)
      if (top + r < rows && left + threadIdx.x < cols)
        tile[r][threadIdx.x] = x[(top + r) * cols + left + threadIdx.x];
    __syncthreads();
    for (int c = threadIdx.y; c < 32; c += 8)
      if (left + c < cols && top + threadIdx.x < rows) out[(left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
  }
}
