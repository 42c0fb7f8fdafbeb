/* cutegen
idea = "one block a row: warps scan with shuffles, their totals are scanned once, a carry goes on to the next chunk"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_scan<256>"
grid   = ["rows"]
block  = ["256"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ float warp_scan(float value) {
  for (int offset = 1; offset < 32; offset *= 2) {
    float const before = __shfl_up_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 >= offset) value += before;
  }
  return value;
}

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void row_scan(float const* x, float* out, int cols) {
  __shared__ float totals[BLOCK / 32];
  Tensor source = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * cols), make_layout(cols));
  Tensor target = make_tensor(make_gmem_ptr(out + long(blockIdx.x) * cols), make_layout(cols));
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float carry = 0.0f;
  for (int start = 0; start < cols; start += BLOCK) {
    int const i = start + threadIdx.x;
    float value = warp_scan(i < cols ? source(i) : 0.0f);
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < BLOCK / 32; ++w) {
      if (w == warp) value += total;
      total += totals[w];
    }
    if (i < cols) target(i) = carry + value;
    carry += total;
    __syncthreads();
  }
}
