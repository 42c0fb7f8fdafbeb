/* cutegen
idea = "128-bit loads and stores, two vectors a thread"

[let]
n = "x.numel"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }
ITEMS = { default = 2, values = [1, 2, 4] }

[[launch]]
kernel = "swish<BLOCK, ITEMS>"
grid   = ["ceil_div(n, BLOCK * ITEMS * 4)"]
block  = ["BLOCK"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK, int ITEMS>
__global__ __launch_bounds__(BLOCK) void swish(float const* x, float* out, long n) {
  auto in = make_tensor(make_gmem_ptr(reinterpret_cast<uint128_t const*>(x)), make_layout(n / 4));
  auto result = make_tensor(make_gmem_ptr(reinterpret_cast<uint128_t*>(out)), make_layout(n / 4));
  long first = long(blockIdx.x) * BLOCK * ITEMS + threadIdx.x;
  for (int item = 0; item < ITEMS; ++item) {
    long i = first + long(item) * BLOCK;
    if (i >= n / 4) break;
    auto values = make_tensor<float>(Int<4>{});
    recast<uint128_t>(values)(0) = in(i);
    CUTE_UNROLL
    for (int k = 0; k < 4; ++k) values(k) = values(k) / (1.0f + __expf(-values(k)));
    result(i) = recast<uint128_t>(values)(0);
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) {
    float v = x[n / 4 * 4 + threadIdx.x];
    out[n / 4 * 4 + threadIdx.x] = v / (1.0f + __expf(-v));
  }
}
