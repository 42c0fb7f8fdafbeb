/* cutegen
idea = "a histogram a block in shared memory, added to the whole one at the end"

[let]
n = "x.numel"

[[launch]]
kernel = "clear_counts"
grid   = ["1"]
block  = ["64"]
args   = ["out"]

[[launch]]
kernel = "histogram"
grid   = ["min(ceil_div(n, 256), 4 * sm_count)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void clear_counts(int* out) { out[threadIdx.x] = 0; }

__global__ __launch_bounds__(256) void histogram(int const* x, int* out, long n) {
  __shared__ int counts[64];
  if (threadIdx.x < 64) counts[threadIdx.x] = 0;
  __syncthreads();
  Tensor gx = make_tensor(make_gmem_ptr(x), make_layout(n));
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += long(gridDim.x) * 256) atomicAdd(&counts[gx(i)], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], counts[threadIdx.x]);
}
