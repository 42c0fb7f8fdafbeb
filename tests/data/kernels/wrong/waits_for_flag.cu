/* cutegen
idea = "waits for a flag that nobody sets"

[let]
n = "x.numel"

[[scratch]]
name  = "flag"
dtype = "int32"
shape = ["1"]
init  = "zero"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n, 256)"]
block  = ["256"]
args   = ["x", "flag", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void relu(float const* x, int const volatile* flag, float* out, int n) {
  while (*flag == 0) {
  }
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}
