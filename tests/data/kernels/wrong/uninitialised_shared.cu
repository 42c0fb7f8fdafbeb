/* cutegen
idea = "a histogram whose shared counters are never zeroed"

[let]
n = "x.numel"

[[launch]]
kernel = "clear_counts"
grid   = ["1"]
block  = ["64"]
args   = ["out"]

[[launch]]
kernel = "histogram"
grid   = ["ceil_div(n, 256)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void clear_counts(int* out) { out[threadIdx.x] = 0; }

__global__ void histogram(int const* x, int* out, int n) {
  __shared__ int counts[64];
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], counts[threadIdx.x]);
}
