/* cutegen
idea = "eight bfloat16 a thread in 128-bit copies, arithmetic in float32, the tail one by one"

[let]
n = "x.numel"

[params]
BLOCK = { default = 128, values = [128, 256, 512] }

[[launch]]
kernel = "scale_add<BLOCK>"
grid   = ["ceil_div(n, BLOCK * 8)"]
block  = ["BLOCK"]
args   = ["x", "y", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ bfloat16_t scaled_sum(bfloat16_t x, bfloat16_t y) { return bfloat16_t(1.5f * float(x) + float(y)); }

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void scale_add(bfloat16_t const* x, bfloat16_t const* y, bfloat16_t* out, long n) {
  long const start = (long(blockIdx.x) * BLOCK + threadIdx.x) * 8;
  if (start + 8 <= n) {
    auto eight = make_layout(_8{});
    Tensor gx = make_tensor(make_gmem_ptr(x + start), eight);
    Tensor gy = make_tensor(make_gmem_ptr(y + start), eight);
    Tensor go = make_tensor(make_gmem_ptr(out + start), eight);
    Tensor rx = make_fragment_like(gx);
    Tensor ry = make_fragment_like(gy);
    copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, gx, rx);
    copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, gy, ry);
    CUTE_UNROLL
    for (int i = 0; i < 8; ++i) rx(i) = scaled_sum(rx(i), ry(i));
    copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, rx, go);
  } else {
    for (long i = start; i < n; ++i) out[i] = scaled_sum(x[i], y[i]);
  }
}
