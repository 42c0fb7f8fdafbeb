/* cutegen
idea = "off by one: a load past the end of the input, its value unused"

[let]
n = "x.numel"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n, 256)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void relu(float const* x, float* out, int n) {
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float const next = x[i + 1];
  out[i] = next == 1234.5f ? 0.0f : fmaxf(x[i], 0.0f);
}
