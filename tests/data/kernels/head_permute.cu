/* cutegen
idea = "a permutation is a layout: eight elements of a head a thread, both sides contiguous"

[let]
batch = "x.shape[0]"
length = "x.shape[1]"
heads = "x.shape[2]"
width = "x.shape[3]"

[[launch]]
kernel = "permute"
grid   = ["ceil_div(length * heads * width // 8, 128)", "batch"]
block  = ["128"]
args   = ["x", "out", "length", "heads", "width // 8"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void permute(
    bfloat16_t const* x, bfloat16_t* out, int length, int heads, int vectors) {
  auto shape = make_shape(vectors, heads, length);
  long const item = long(blockIdx.y) * length * heads * vectors;
  auto const* from = reinterpret_cast<uint128_t const*>(x) + item;
  auto* to = reinterpret_cast<uint128_t*>(out) + item;
  Tensor source = make_tensor(make_gmem_ptr(from), shape);
  Tensor target = make_tensor(make_gmem_ptr(to), shape, make_stride(_1{}, length * vectors, vectors));
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= size(shape)) return;
  auto const at = idx2crd(i, shape);
  target(at) = source(at);
}
