/* cutegen
idea = "16 x 16 tile of one image with its halo in shared memory, eight output channels a thread"

[let]
images = "x.shape[0]"
channels = "x.shape[1]"
height = "x.shape[2]"
width = "x.shape[3]"
filters = "out.shape[1]"

[[launch]]
kernel = "conv2d<8>"
grid   = ["ceil_div(width, 16)", "ceil_div(height, 16)", "images * ceil_div(filters, 8)"]
block  = ["16", "16"]
args   = ["x", "conv_weight", "conv_bias", "out", "images", "channels", "filters", "height", "width"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int FILTERS>
__global__ __launch_bounds__(256) void conv2d(
    float const* x, float const* weight, float const* bias, float* out, int images, int channels, int filters,
    int height, int width) {
  __shared__ float tile_data[18 * 18];
  Tensor tile = make_tensor(make_smem_ptr(tile_data), make_layout(make_shape(Int<18>{}, Int<18>{}), LayoutRight{}));
  Tensor gx = make_tensor(make_gmem_ptr(x), make_shape(images, channels, height, width), LayoutRight{});
  Tensor gw = make_tensor(make_gmem_ptr(weight), make_shape(filters, channels, _3{}, _3{}), LayoutRight{});
  Tensor go = make_tensor(make_gmem_ptr(out), make_shape(images, filters, height, width), LayoutRight{});
  int const image = blockIdx.z % images, first = blockIdx.z / images * FILTERS;
  int const top = blockIdx.y * 16, left = blockIdx.x * 16;
  Tensor sums = make_tensor<float>(Int<FILTERS>{});
  for (int f = 0; f < FILTERS; ++f) sums(f) = first + f < filters ? bias[first + f] : 0.0f;
  for (int c = 0; c < channels; ++c) {
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
      int const h = top + i / 18 - 1, w = left + i % 18 - 1;
      bool const inside = h >= 0 && h < height && w >= 0 && w < width;
      tile(i / 18, i % 18) = inside ? gx(image, c, h, w) : 0.0f;
    }
    __syncthreads();
    for (int r = 0; r < 3; ++r)
      for (int s = 0; s < 3; ++s) {
        float const value = tile(threadIdx.y + r, threadIdx.x + s);
        CUTE_UNROLL
        for (int f = 0; f < FILTERS; ++f)
          if (first + f < filters) sums(f) += value * gw(first + f, c, r, s);
      }
    __syncthreads();
  }
  int const h = top + threadIdx.y, w = left + threadIdx.x;
  if (h >= height || w >= width) return;
  for (int f = 0; f < FILTERS && first + f < filters; ++f) go(image, first + f, h, w) = sums(f);
}
