/* cutegen
idea = "one block a row: largest, sum of exponentials, quotient"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "softmax"
grid   = ["rows"]
block  = ["128"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void softmax(float const* x, float* out, int cols) {
  __shared__ float shared[128];
  float const* row = x + long(blockIdx.x) * cols;
  int const t = threadIdx.x;
  float largest = -INFINITY;
  for (int c = t; c < cols; c += 128) largest = fmaxf(largest, row[c]);
  shared[t] = largest;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) shared[t] = fmaxf(shared[t], shared[t + half]);
    __syncthreads();
  }
  largest = shared[0];
  __syncthreads();  // everybody has read the maximum
  float sum = 0.0f;
  for (int c = t; c < cols; c += 128) sum += expf(row[c] - largest);
  shared[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  float const total = shared[0];
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = expf(row[c] - largest) / total;
}
