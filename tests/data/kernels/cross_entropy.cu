/* cutegen
idea = "a loss a row with the row's log-sum-exp, then their mean by one block"

[let]
rows = "x.shape[0]"
classes = "x.shape[1]"

[[scratch]]
name  = "losses"
dtype = "float32"
shape = ["rows"]

[[launch]]
kernel = "row_losses"
grid   = ["rows"]
block  = ["64"]
args   = ["x", "target", "losses", "classes"]

[[launch]]
kernel = "mean_loss"
grid   = ["1"]
block  = ["64"]
args   = ["losses", "out", "rows"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float halves[2];
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) halves[threadIdx.x / 32] = value;
  __syncthreads();
  value = combine(halves[0], halves[1]);
  __syncthreads();
  return value;
}

__device__ float largest_of(float a, float b) { return fmaxf(a, b); }
__device__ float sum_of(float a, float b) { return a + b; }

__global__ __launch_bounds__(64) void row_losses(float const* x, long long const* target, float* losses, int classes) {
  Tensor row = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * classes), make_layout(classes));
  float largest = -FLT_MAX, sum = 0.0f;
  for (int i = threadIdx.x; i < classes; i += 64) largest = fmaxf(largest, row(i));
  largest = over_block(largest, largest_of);
  for (int i = threadIdx.x; i < classes; i += 64) sum += expf(row(i) - largest);
  sum = over_block(sum, sum_of);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - row(target[blockIdx.x]);
}

__global__ __launch_bounds__(64) void mean_loss(float const* losses, float* out, int rows) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < rows; i += 64) sum += losses[i];
  sum = over_block(sum, sum_of);
  if (threadIdx.x == 0) out[0] = sum / rows;
}
