/* cutegen
idea = "a grid of at most 32 blocks strides over the elements"

[let]
n = "x.numel"

[[launch]]
kernel = "softsign"
grid   = ["min(ceil_div(n, 256), 32)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void softsign(float const* x, float* out, long n) {
  long const stride = long(gridDim.x) * 256;
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += stride) out[i] = x[i] / (1.0f + fabsf(x[i]));
}
