/* cutegen
idea = "half2 arithmetic: one fused multiply-add for two elements"

[let]
n = "x.numel"

[[launch]]
kernel = "axpy"
grid   = ["ceil_div(n, 512)"]
block  = ["256"]
args   = ["x", "y", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void axpy(__half const* x, __half const* y, __half* out, int n) {
  int const pair = blockIdx.x * 256 + threadIdx.x;
  int const pairs = n / 2;
  auto layout = make_layout(pairs);
  Tensor gx = make_tensor(make_gmem_ptr(reinterpret_cast<__half2 const*>(x)), layout);
  Tensor gy = make_tensor(make_gmem_ptr(reinterpret_cast<__half2 const*>(y)), layout);
  Tensor go = make_tensor(make_gmem_ptr(reinterpret_cast<__half2*>(out)), layout);
  __half2 const two = __float2half2_rn(2.0f);
  if (pair < pairs) go(pair) = __hfma2(two, gx(pair), gy(pair));
  if (pair == 0 && n % 2) out[n - 1] = __hfma(__low2half(two), x[n - 1], y[n - 1]);
}
