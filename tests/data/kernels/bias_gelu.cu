/* cutegen
idea = "broadcasts are layouts with stride 0: one shape, one index, four tensors"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "bias_gelu"
grid   = ["ceil_div(cols, 64)", "ceil_div(rows, 4)"]
block  = ["64", "4"]
args   = ["x", "bias", "scale", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ float gelu(float x) {
  float const inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

__global__ void bias_gelu(float const* x, float const* bias, float const* scale, float* out, int rows, int cols) {
  auto shape = make_shape(rows, cols);
  Tensor gx = make_tensor(make_gmem_ptr(x), shape, make_stride(cols, _1{}));
  Tensor gb = make_tensor(make_gmem_ptr(bias), shape, make_stride(_0{}, _1{}));
  Tensor gs = make_tensor(make_gmem_ptr(scale), shape, make_stride(_1{}, _0{}));
  Tensor go = make_tensor(make_gmem_ptr(out), shape, make_stride(cols, _1{}));
  auto const at = make_coord(int(blockIdx.y * 4 + threadIdx.y), int(blockIdx.x * 64 + threadIdx.x));
  if (elem_less(at, shape)) go(at) = gelu(gx(at) * gs(at) + gb(at));
}
