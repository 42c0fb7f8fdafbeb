/* cutegen
idea = "every second element is never written"

[let]
n = "x.numel"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n, 512)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void relu(float const* x, float* out, int n) {
  int const i = 2 * (blockIdx.x * 256 + threadIdx.x);
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}
