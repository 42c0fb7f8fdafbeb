/* cutegen
idea = "one thread per element"

[let]
n = "x.numel"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }

[[launch]]
kernel = "scale<BLOCK>"
grid   = ["ceil_div(n, BLOCK)"]
block  = ["BLOCK"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void scale(float const* x, float* out, long n) {
  auto in = make_tensor(make_gmem_ptr(x), make_layout(n));
  auto result = make_tensor(make_gmem_ptr(out), make_layout(n));
  long i = long(blockIdx.x) * BLOCK + threadIdx.x;
  if (i < n) result(i) = 2.0f * in(i);
}
