/* cutegen
idea = "four elements a load where they are there, the tail one by one"

[let]
n = "x.numel"

[[launch]]
kernel = "tanh_of"
grid   = ["ceil_div(n, 1024)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void tanh_of(float const* x, float* out, long n) {
  long const first = (long(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (first + 4 <= n) {
    float4 v = *reinterpret_cast<float4 const*>(x + first);
    v.x = tanhf(v.x), v.y = tanhf(v.y), v.z = tanhf(v.z), v.w = tanhf(v.w);
    *reinterpret_cast<float4*>(out + first) = v;
  } else {
    for (long i = first; i < n; ++i) out[i] = tanhf(x[i]);
  }
}
