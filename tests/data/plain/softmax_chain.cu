// Two kernels in a chain: row statistics in memory of their own, then the rows.
#include <cuda_runtime.h>

__global__ void row_stats(const float* x, float* most, float* total, int cols) {
  int row = blockIdx.x;
  float m = -INFINITY;
  for (int c = 0; c < cols; ++c) m = fmaxf(m, x[(long long)row * cols + c]);
  float s = 0.0f;
  for (int c = 0; c < cols; ++c) s += expf(x[(long long)row * cols + c] - m);
  if (threadIdx.x == 0) {
    most[row] = m;
    total[row] = s;
  }
}

__global__ void normalise(const float* x, const float* most, const float* total, float* out, int cols, long long n) {
  long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) out[i] = expf(x[i] - most[i / cols]) / total[i / cols];
}

void softmax(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  float *most, *total;
  cudaMallocAsync(&most, rows * sizeof(float), stream);
  cudaMallocAsync(&total, rows * sizeof(float), stream);
  long long n = (long long)rows * cols;
  row_stats<<<rows, 32, 0, stream>>>(x, most, total, cols);
  normalise<<<(n + 255) / 256, 256, 0, stream>>>(x, most, total, out, cols, n);
  cudaFreeAsync(most, stream);
  cudaFreeAsync(total, stream);
}
