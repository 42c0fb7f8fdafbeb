/* cutegen
idea = "32 x 32 tiles through shared memory, swizzled so that neither side meets a bank conflict"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "transpose"
grid   = ["ceil_div(cols, 32)", "ceil_div(rows, 32)"]
block  = ["32", "8"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void transpose(float const* x, float* out, int rows, int cols) {
  auto swizzled = composition(Swizzle<5, 0, 5>{}, make_layout(make_shape(_32{}, _32{}), LayoutRight{}));
  __shared__ float tile_data[32 * 32];
  Tensor tile = make_tensor(make_smem_ptr(tile_data), swizzled);
  Tensor gx = make_tensor(make_gmem_ptr(x), make_shape(rows, cols), make_stride(cols, _1{}));
  Tensor go = make_tensor(make_gmem_ptr(out), make_shape(cols, rows), make_stride(rows, _1{}));
  int const top = blockIdx.y * 32, left = blockIdx.x * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (top + r < rows && left + threadIdx.x < cols) tile(r, threadIdx.x) = gx(top + r, left + threadIdx.x);
  __syncthreads();
  for (int c = threadIdx.y; c < 32; c += 8)
    if (left + c < cols && top + threadIdx.x < rows) go(left + c, top + threadIdx.x) = tile(threadIdx.x, c);
}
