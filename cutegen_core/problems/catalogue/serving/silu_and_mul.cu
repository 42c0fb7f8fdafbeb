/* cutegen
idea = "one block per token, one element at a time"

[let]
tokens = "out.shape[0]"
dim    = "out.shape[1]"

[[launch]]
kernel = "silu_and_mul"
grid   = ["tokens"]
block  = ["min(1024, round_up(dim, 32))"]
args   = ["x", "out", "dim"]
*/
#include <cuda_fp16.h>

// One block a token; a thread computes one element at a time.
__global__ void silu_and_mul(__half const* x, __half* out, int dim) {
  long const token = blockIdx.x;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    float const gate = __half2float(x[token * 2 * dim + i]);
    float const up = __half2float(x[token * 2 * dim + dim + i]);
    out[token * dim + i] = __float2half(gate / (1.0f + expf(-gate)) * up);
  }
}
