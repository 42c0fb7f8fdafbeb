/* cutegen
idea = "bitonic network, one row a block in shared memory"

[let]
rows = "x.shape[0]"

[[launch]]
kernel = "sort_row"
grid   = ["rows"]
block  = ["128"]
args   = ["x", "out"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// NaN comes last, as in torch.
__device__ bool after(float a, float b) { return a > b || (isnan(a) && !isnan(b)); }

// Every thread owns one of the 128 comparisons of a step; rows have 256 elements.
__global__ __launch_bounds__(128) void sort_row(float const* x, float* out) {
  __shared__ float row[256];
  for (int i = threadIdx.x; i < 256; i += 128) row[i] = x[long(blockIdx.x) * 256 + i];
  for (int run = 2; run <= 256; run *= 2)
    for (int gap = run / 2; gap > 0; gap /= 2) {
      __syncthreads();
      int const low = 2 * threadIdx.x - threadIdx.x % gap, high = low + gap;
      bool const upwards = (low & run) == 0;
      float const a = row[low], b = row[high];
      if (after(a, b) == upwards) row[low] = b, row[high] = a;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 128) out[long(blockIdx.x) * 256 + i] = row[i];
}
