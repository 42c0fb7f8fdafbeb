/* cutegen
idea = "cp.async into shared memory, read without waiting for it"

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

__global__ void transpose(float const* x, float* out, int rows, int cols) {
  __shared__ float tile_data[32 * 33];
  Tensor tile = make_tensor(make_smem_ptr(tile_data), make_shape(_32{}, _32{}), make_stride(Int<33>{}, _1{}));
  Tensor gx = make_tensor(make_gmem_ptr(x), make_shape(rows, cols), make_stride(cols, _1{}));
  int const top = blockIdx.y * 32, left = blockIdx.x * 32, col = left + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (top + r < rows && col < cols)
      SM80_CP_ASYNC_CACHEALWAYS<float>::copy(gx(top + r, col), tile(r, threadIdx.x));
  cp_async_fence();
  __syncthreads();
  for (int c = threadIdx.y; c < 32; c += 8)
    if (left + c < cols && top + threadIdx.x < rows) out[(left + c) * rows + top + threadIdx.x] = tile(threadIdx.x, c);
}
