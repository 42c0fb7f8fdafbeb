/* cutegen
idea = "a loop whose condition never fails"

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
  float volatile* mine = out + i;
  if (i < n)
    for (int step = 0; step >= 0; step = (step + 1) % 1024) *mine = fmaxf(x[i], 0.0f);
}
