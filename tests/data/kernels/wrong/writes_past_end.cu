/* cutegen
idea = "off by one: the last thread writes one element past the end"

[let]
n = "x.numel"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n + 1, 256)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void relu(float const* x, float* out, int n) {
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i <= n) out[i] = i < n ? fmaxf(x[i], 0.0f) : 0.0f;
}
