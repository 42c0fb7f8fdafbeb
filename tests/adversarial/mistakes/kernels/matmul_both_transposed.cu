/* cutegen
idea = "a thread a result, both matrices as layouts with their own strides"

[let]
k = "A.shape[0]"
m = "A.shape[1]"
n = "B.shape[0]"

[[launch]]
kernel = "multiply"
grid   = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block  = ["16", "16"]
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void multiply(float const* a, float const* b, float* out, int m, int n, int k) {
  Tensor ga = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(_1{}, m));
  Tensor gb = make_tensor(make_gmem_ptr(b), make_shape(k, n), make_stride(_1{}, k));
  Tensor go = make_tensor(make_gmem_ptr(out), make_shape(m, n), make_stride(n, _1{}));
  int const row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) sum += ga(row, p) * gb(p, col);
  go(row, col) = sum;
}
