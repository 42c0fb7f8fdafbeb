/* cutegen
idea = "integer intrinsics, one element a thread"

[let]
n = "x.numel"

[[launch]]
kernel = "integer_bits"
grid   = ["ceil_div(n, 128)"]
block  = ["128"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void integer_bits(int const* x, int* out, int n) {
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  Tensor results = make_tensor(make_gmem_ptr(out), make_shape(_4{}, n), make_stride(n, _1{}));
  unsigned const value = x[i];
  results(0, i) = (value * 2654435761u) ^ (value >> 15);
  results(1, i) = __popc(value);
  results(2, i) = __clz(value);
  results(3, i) = __brev(value);
}
