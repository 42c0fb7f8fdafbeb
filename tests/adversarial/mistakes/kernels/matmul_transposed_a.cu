/* cutegen
idea = "8 x 32 results a block; A is read down its columns through shared memory"

[let]
k = "A.shape[0]"
m = "A.shape[1]"
n = "B.shape[1]"

[[launch]]
kernel = "multiply"
grid   = ["ceil_div(n, 32)", "ceil_div(m, 8)"]
block  = ["32", "8"]
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void multiply(float const* a, float const* b, float* out, int m, int n, int k) {
  __shared__ float sa[32][8];
  Tensor ga = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(_1{}, m));
  Tensor gb = make_tensor(make_gmem_ptr(b), make_shape(k, n), make_stride(n, _1{}));
  int const row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < k; start += 32) {
    int const depth = start + threadIdx.x;
    sa[threadIdx.x][threadIdx.y] = row < m && depth < k ? ga(row, depth) : 0.0f;
    __syncthreads();
    if (col < n)
      for (int p = 0; p < min(32, k - start); ++p) sum += sa[p][threadIdx.y] * gb(start + p, col);
    __syncthreads();
  }
  if (row < m && col < n) out[long(row) * n + col] = sum;
}
