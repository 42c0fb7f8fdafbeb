/* cutegen
idea = "a pair a thread: both halves of the head, one sine and cosine"

[let]
length = "x.shape[0]"
heads = "x.shape[1]"
pairs = "x.shape[2] // 2"

[[launch]]
kernel = "rotate"
grid   = ["ceil_div(heads * pairs, 64)", "length"]
block  = ["64"]
args   = ["x", "out", "length", "heads", "pairs"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(64) void rotate(bfloat16_t const* x, bfloat16_t* out, int length, int heads, int pairs) {
  auto shape = make_shape(length, heads, make_shape(pairs, _2{}));
  auto stride = make_stride(heads * pairs * 2, pairs * 2, make_stride(_1{}, pairs));
  Tensor gx = make_tensor(make_gmem_ptr(x), shape, stride);
  Tensor go = make_tensor(make_gmem_ptr(out), shape, stride);
  int const i = blockIdx.x * 64 + threadIdx.x, position = blockIdx.y;
  if (i >= heads * pairs) return;
  int const head = i / pairs, pair = i % pairs;
  float sine, cosine;
  sincosf(position * powf(10000.0f, -float(pair) / pairs), &sine, &cosine);
  float const first = gx(position, head, make_coord(pair, 0)), second = gx(position, head, make_coord(pair, 1));
  go(position, head, make_coord(pair, 0)) = bfloat16_t(first * cosine - second * sine);
  go(position, head, make_coord(pair, 1)) = bfloat16_t(second * cosine + first * sine);
}
