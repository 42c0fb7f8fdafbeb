/* cutegen
idea = "one block per row, summed in shared memory"

[let]
tokens = "x.shape[0]"
dim    = "x.shape[1]"

[[launch]]
kernel = "fused_add_rmsnorm"
grid   = ["tokens"]
block  = [256]
args   = ["x", "residual", "weight", "out0", "out1", "dim", "eps"]
*/

// One block a row: the sum is written, its squares meet in shared memory, then the sum is read again and scaled.
__global__ __launch_bounds__(256) void fused_add_rmsnorm(
    float const* x, float const* residual, float const* weight, float* out0, float* out1, int dim, float eps) {
  __shared__ float partial[256];
  long const row = long(blockIdx.x) * dim;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < dim; i += 256) {
    float const total = x[row + i] + residual[row + i];
    out1[row + i] = total;
    squares += total * total;
  }
  partial[threadIdx.x] = squares;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  float const scale = 1.0f / sqrtf(partial[0] / dim + eps);
  for (int i = threadIdx.x; i < dim; i += 256) out0[row + i] = out1[row + i] * scale * weight[i];
}
