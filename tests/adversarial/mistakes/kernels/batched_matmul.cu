/* cutegen
idea = "the batch is the grid's third dimension; 4 rows a thread in registers"

[let]
batch = "A.shape[0]"
m = "A.shape[1]"
k = "A.shape[2]"
n = "B.shape[2]"

[[launch]]
kernel = "bmm"
grid   = ["ceil_div(n, 64)", "ceil_div(m, 4)", "batch"]
block  = ["64"]
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(64) void bmm(float const* a, float const* b, float* out, int m, int n, int k) {
  int const col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y * 4;
  if (col >= n) return;
  float const* matrix_a = a + long(blockIdx.z) * m * k;
  float const* matrix_b = b + long(blockIdx.z) * k * n;
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int p = 0; p < k; ++p) {
    float const value = matrix_b[long(p) * n + col];
    for (int r = 0; r < 4; ++r)
      if (row + r < m) sums[r] += matrix_a[long(row + r) * k + p] * value;
  }
  for (int r = 0; r < 4; ++r)
    if (row + r < m) out[long(blockIdx.z) * m * n + long(row + r) * n + col] = sums[r];
}
