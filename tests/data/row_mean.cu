/* cutegen
idea = "one block a row, partial sums through shared memory"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = 64

[[launch]]
kernel = "row_mean<BLOCK>"
grid   = ["rows"]
block  = ["BLOCK"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK>
__global__ void row_mean(float const* x, float* out, int cols) {
  __shared__ float partial[BLOCK];
  auto row = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * cols), make_layout(cols));
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += row(c);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0] / cols;
}
