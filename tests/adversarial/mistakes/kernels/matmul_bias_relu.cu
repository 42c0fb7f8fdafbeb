/* cutegen
idea = "16 x 16 tiles through shared memory; bias and ReLU where the sum is in a register"

[let]
m = "x.shape[0]"
k = "x.shape[1]"
n = "linear_weight.shape[0]"

[[launch]]
kernel = "linear_relu"
grid   = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block  = ["16", "16"]
args   = ["x", "linear_weight", "linear_bias", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void linear_relu(
    float const* x, float const* weight, float const* bias, float* out, int m, int n, int k) {
  __shared__ float sx[16][17], sw[16][17];
  int const tx = threadIdx.x, ty = threadIdx.y;
  int const row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, other = blockIdx.x * 16 + ty;
  float sum = 0.0f;
  for (int start = 0; start < k; start += 16) {
    sx[ty][tx] = row < m && start + tx < k ? x[long(row) * k + start + tx] : 0.0f;
    sw[ty][tx] = other < n && start + tx < k ? weight[long(other) * k + start + tx] : 0.0f;
    __syncthreads();
    for (int p = 0; p < 16; ++p) sum += sx[ty][p] * sw[tx][p];
    __syncthreads();  // the tile is used up
  }
  float const value = col < n ? sum + bias[col] : 0.0f;
  if (row < m && col < n) out[long(row) * n + col] = value < 0.0f ? 0.0f : value;  // NaN passes
}
