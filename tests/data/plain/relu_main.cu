// Raw CUDA: a program with a main, device pointers and error checks.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                     \
  do {                                                                  \
    cudaError_t error = (call);                                         \
    if (error != cudaSuccess) {                                         \
      fprintf(stderr, "%s\n", cudaGetErrorString(error));               \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

constexpr int kBlock = 256;

// A comment with kernel<<<1, 2>>>(x) in it, and a string below.
__global__ void relu_kernel(const float* in, float* out, int n) {
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < n) out[i] = in[i] > 0.0f || isnan(in[i]) ? in[i] : 0.0f;
}

int main() {
  int n = 1 << 20;
  size_t bytes = n * sizeof(float);
  std::vector<float> h_in(n, 1.0f), h_out(n);
  float *d_in, *d_out;
  CHECK(cudaMalloc(&d_in, bytes));
  CHECK(cudaMalloc(&d_out, bytes));
  CHECK(cudaMemcpy(d_in, h_in.data(), bytes, cudaMemcpyHostToDevice));
  printf("relu_kernel<<<grid, block>>>\n");
  int grid = (n + kBlock - 1) / kBlock;
  relu_kernel<<<grid, kBlock>>>(d_in, d_out, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h_out.data(), d_out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(d_in));
  CHECK(cudaFree(d_out));
  return 0;
}
