/* cutegen
idea = "works in place and then copies: the input is not its own"

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
  auto* mine = const_cast<float*>(x);
  mine[i] = fmaxf(x[i], 0.0f);
  out[i] = mine[i];
}
