/* cutegen
idea = "a thread an element"

[let]
n = "x.numel"

[[launch]]
kernel = "sigmoid"
grid   = ["ceil_div(n, 256)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void sigmoid(float const* x, float* out, long n) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = 1.0f / (1.0f + expf(-x[i]));
}
