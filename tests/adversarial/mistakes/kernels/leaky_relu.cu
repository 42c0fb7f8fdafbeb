/* cutegen
idea = "a thread an element, the slope from the problem"

[let]
n = "x.numel"

[[launch]]
kernel = "leaky_relu"
grid   = ["ceil_div(n, 256)"]
block  = ["256"]
args   = ["x", "out", "n", "negative_slope"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void leaky_relu(float const* x, float* out, long n, float slope) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = x[i] > 0.0f ? x[i] : x[i] * slope;
}
