/* cutegen
idea = "one warp a row, 128-bit copies"

[let]
count = "index.numel"
width = "table.shape[1]"

[[launch]]
kernel = "gather"
grid   = ["ceil_div(count, 4)"]
block  = ["128"]
args   = ["index", "table", "out", "count", "width"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// The width is a multiple of 4.
__global__ __launch_bounds__(128) void gather(
    long long const* index, float const* table, float* out, int count, int width) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= count) return;
  auto vectors = make_layout(width / 4);
  Tensor source = make_tensor(make_gmem_ptr(reinterpret_cast<uint128_t const*>(table + index[row] * width)), vectors);
  Tensor target = make_tensor(make_gmem_ptr(reinterpret_cast<uint128_t*>(out + long(row) * width)), vectors);
  for (int i = threadIdx.x % 32; i < width / 4; i += 32) target(i) = source(i);
}
