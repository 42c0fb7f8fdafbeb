/* cutegen
idea = "blocks of a cluster read one another's shared memory"

[let]
n = "x.numel"

[[launch]]
kernel = "grand_total"
grid   = ["4"]
block  = ["256"]
cluster = ["4"]
args   = ["x", "out", "n"]
*/
#include <cooperative_groups.h>
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void grand_total(float const* x, float* out, long n) {
  auto cluster = cooperative_groups::this_cluster();
  __shared__ float partial[256];
  Tensor gx = make_tensor(make_gmem_ptr(x), make_layout(n));
  float sum = 0.0f;
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += 1024) sum += gx(i);
  partial[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    sum = 0.0f;
    for (int rank = 0; rank < 4; ++rank) sum += *cluster.map_shared_rank(&partial[0], rank);
    out[0] = sum;
  }
  cluster.sync();
}
