/* cutegen
idea = "one result a thread, the channel's 25 weights in registers"

[let]
planes = "x.shape[0] * x.shape[1]"
channels = "x.shape[1]"
height = "x.shape[2]"
width = "x.shape[3]"
rows = "out.shape[2]"
cols = "out.shape[3]"

[[launch]]
kernel = "depthwise"
grid   = ["ceil_div(cols, 32)", "ceil_div(rows, 4)", "planes"]
block  = ["32", "4"]
args   = ["x", "conv_weight", "out", "channels", "height", "width", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void depthwise(
    float const* x, float const* weight, float* out, int channels, int height, int width, int rows, int cols) {
  int const plane = blockIdx.z;
  Tensor gx = make_tensor(make_gmem_ptr(x + long(plane) * height * width), make_shape(height, width), LayoutRight{});
  Tensor go = make_tensor(make_gmem_ptr(out + long(plane) * rows * cols), make_shape(rows, cols), LayoutRight{});
  Tensor gw = make_tensor(make_gmem_ptr(weight + plane % channels * 25), make_layout(make_shape(_5{}, _5{}), LayoutRight{}));
  Tensor taps = make_fragment_like(gw);
  copy(gw, taps);
  int const row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  CUTE_UNROLL
  for (int r = 0; r < 5; ++r)
    CUTE_UNROLL
    for (int s = 0; s < 5; ++s) {
      int const h = 2 * row + r - 2, w = 2 * col + s - 2;
      if (h >= 0 && h < height && w >= 0 && w < width) sum += gx(h, w) * taps(r, s);
    }
  go(row, col) = sum;
}
