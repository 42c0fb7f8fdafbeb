/* cutegen
idea = "a pixel a thread: three bytes in, one value into each of three planes"

[let]
images = "x.shape[0]"
pixels = "x.shape[1] * x.shape[2]"

[[launch]]
kernel = "normalise"
grid   = ["ceil_div(pixels, 128)", "images"]
block  = ["128"]
args   = ["x", "mean", "std", "out", "images", "pixels"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void normalise(
    unsigned char const* x, float const* mean, float const* std, float* out, int images, int pixels) {
  auto shape = make_shape(images, pixels, _3{});
  Tensor interleaved = make_tensor(make_gmem_ptr(x), shape, make_stride(pixels * 3, _3{}, _1{}));
  Tensor planes = make_tensor(make_gmem_ptr(out), shape, make_stride(pixels * 3, _1{}, pixels));
  int const pixel = blockIdx.x * 128 + threadIdx.x, image = blockIdx.y;
  if (pixel >= pixels) return;
  CUTE_UNROLL
  for (int c = 0; c < 3; ++c) planes(image, pixel, c) = (interleaved(image, pixel, c) / 255.0f - mean[c]) / std[c];
}
