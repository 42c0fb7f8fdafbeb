// cudaLaunchKernelEx with a configuration, and a number that only the host can know.
#include <cuda_runtime.h>
#include "tuning.h"

__global__ void relu_kernel(const float* x, float* out, long n) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] > 0.0f || isnan(x[i]) ? x[i] : 0.0f;
}

void relu(const float* x, float* out, long n, cudaStream_t stream) {
  int threads = tuned_threads("relu", n);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((n + threads - 1) / threads);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = 0;
  config.stream = stream;
  cudaLaunchKernelEx(&config, relu_kernel, x, out, n);
}
