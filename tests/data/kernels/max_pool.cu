/* cutegen
idea = "one window a thread, value and place kept together"

[let]
planes = "x.shape[0] * x.shape[1]"
height = "x.shape[2]"
width = "x.shape[3]"
rows = "out0.shape[2]"
cols = "out0.shape[3]"

[[launch]]
kernel = "max_pool"
grid   = ["ceil_div(rows * cols, 128)", "planes"]
block  = ["128"]
args   = ["x", "out0", "out1", "height", "width", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void max_pool(
    float const* x, float* values, long long* places, int height, int width, int rows, int cols) {
  int const i = blockIdx.x * 128 + threadIdx.x, plane = blockIdx.y;
  if (i >= rows * cols) return;
  Tensor gx = make_tensor(make_gmem_ptr(x + long(plane) * height * width), make_shape(height, width), LayoutRight{});
  int const row = i / cols, col = i % cols;
  float largest = -INFINITY;
  long long place = 0;
  for (int h = max(2 * row - 1, 0); h < min(2 * row + 2, height); ++h)
    for (int w = max(2 * col - 1, 0); w < min(2 * col + 2, width); ++w)
      if (gx(h, w) > largest) {
        largest = gx(h, w);
        place = h * width + w;
      }
  values[long(plane) * rows * cols + i] = largest;
  places[long(plane) * rows * cols + i] = place;
}
