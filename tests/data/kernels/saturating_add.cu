/* cutegen
idea = "eight int16 a thread in 128-bit copies, the tail one by one"

[let]
n = "x.numel"

[[launch]]
kernel = "saturating_add"
grid   = ["ceil_div(n, 1024)"]
block  = ["128"]
args   = ["x", "y", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ short saturated_sum(short a, short b) { return short(min(max(int(a) + int(b), -32768), 32767)); }

__global__ __launch_bounds__(128) void saturating_add(short const* x, short const* y, short* out, long n) {
  long const start = (long(blockIdx.x) * 128 + threadIdx.x) * 8;
  if (start + 8 > n) {
    for (long i = start; i < n; ++i) out[i] = saturated_sum(x[i], y[i]);
    return;
  }
  auto eight = make_layout(_8{});
  Tensor rx = make_tensor<short>(eight);
  Tensor ry = make_tensor<short>(eight);
  copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, make_tensor(make_gmem_ptr(x + start), eight), rx);
  copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, make_tensor(make_gmem_ptr(y + start), eight), ry);
  transform(rx, ry, rx, [](short a, short b) { return saturated_sum(a, b); });
  copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, rx, make_tensor(make_gmem_ptr(out + start), eight));
}
