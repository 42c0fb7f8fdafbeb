/* cutegen
idea = "a thread a result: gate and up are halves of a row, arithmetic in float32"

[let]
tokens = "x.shape[0]"
dim = "out.shape[1]"

[[launch]]
kernel = "silu_and_mul"
grid   = ["ceil_div(dim, 128)", "tokens"]
block  = ["128"]
args   = ["x", "out", "dim"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void silu_and_mul(__half const* x, __half* out, int dim) {
  int const c = blockIdx.x * 128 + threadIdx.x;
  if (c >= dim) return;
  __half const* row = x + long(blockIdx.y) * 2 * dim;
  float const gate = __half2float(row[c]), up = __half2float(row[dim + c]);
  __half const silu = __float2half(gate / (1.0f + expf(-gate)));
  out[long(blockIdx.y) * dim + c] = __float2half(__half2float(silu) * up);
}
