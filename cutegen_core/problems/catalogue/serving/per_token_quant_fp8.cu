/* cutegen
idea = "a block a token; one pass for the largest magnitude, one that divides and rounds"

[let]
tokens = "x.shape[0]"
dim = "x.shape[1]"

[[launch]]
kernel = "per_token_quant_fp8"
grid   = ["tokens"]
block  = [256]
args   = ["x", "out0", "out1", "dim"]

[numerics]
accumulate = "float32"
*/
#include <cute/tensor.hpp>
using namespace cute;

// NaN stays: fmaxf would drop it.
__device__ float larger(float a, float b) { return a != a || a > b ? a : b; }

__global__ __launch_bounds__(256) void per_token_quant_fp8(
    bfloat16_t const* x, __nv_fp8_e4m3* quantised, float* scales, int dim) {
  __shared__ float largest[256];
  long const at = long(blockIdx.x) * dim;
  float mine = 0.0f;
  for (int i = threadIdx.x; i < dim; i += 256) mine = larger(fabsf(float(x[at + i])), mine);
  largest[threadIdx.x] = mine;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) largest[threadIdx.x] = larger(largest[threadIdx.x + half], largest[threadIdx.x]);
    __syncthreads();
  }
  float const scale = larger(largest[0] / 448.0f, 1.0f / (448.0f * 512.0f));
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < dim; i += 256) quantised[at + i] = __nv_fp8_e4m3(float(x[at + i]) / scale);
}
