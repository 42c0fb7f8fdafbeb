/* cutegen
idea = "four elements a thread with a stride of a block, erf"

[let]
n = "x.numel"

[[launch]]
kernel = "gelu"
grid   = ["ceil_div(n, 512)"]
block  = ["128"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void gelu(float const* x, float* out, long n) {
  long const first = long(blockIdx.x) * 512 + threadIdx.x;
  for (int item = 0; item < 4; ++item) {
    long const i = first + item * 128;
    if (i >= n) return;
    float const v = x[i];
    out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
  }
}
