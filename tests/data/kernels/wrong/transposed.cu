/* cutegen
idea = "B taken as [K, N] where it is [N, K]"

[let]
m = "A.shape[0]"
n = "B.shape[0]"
k = "A.shape[1]"

[[launch]]
kernel = "matrix_product"
grid   = ["ceil_div(n, 64)", "m"]
block  = ["64"]
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void matrix_product(float const* a, float const* b, float* out, int m, int n, int k) {
  Tensor ga = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor gb = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(_1{}, n));
  int const row = blockIdx.y, col = blockIdx.x * 64 + threadIdx.x;
  if (col >= n) return;
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) sum += ga(row, p) * gb(col, p);
  out[row * n + col] = sum;
}
