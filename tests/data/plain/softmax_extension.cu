// A PyTorch extension: tensors, checks, the current stream, pybind11.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")

namespace {

template <int THREADS>
__device__ float reduce(float value, float* shared, bool largest) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) {
      float other = shared[threadIdx.x + s];
      shared[threadIdx.x] = largest ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
    }
    __syncthreads();
  }
  float result = shared[0];
  __syncthreads();
  return result;
}

template <int THREADS>
__global__ void softmax_kernel(float const* __restrict__ input, float* __restrict__ output, int cols) {
  extern __shared__ float shared[];
  float const* row = input + (long long)blockIdx.x * cols;
  float* result = output + (long long)blockIdx.x * cols;
  float most = -INFINITY;
  bool is_nan = false;
  for (int c = threadIdx.x; c < cols; c += THREADS) {
    most = fmaxf(most, row[c]);
    is_nan |= isnan(row[c]);
  }
  most = reduce<THREADS>(most, shared, true);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += THREADS) sum += expf(row[c] - most);
  sum = reduce<THREADS>(is_nan ? NAN : sum, shared, false);
  for (int c = threadIdx.x; c < cols; c += THREADS) result[c] = expf(row[c] - most) / sum;
}

}  // namespace

torch::Tensor softmax_forward(torch::Tensor input) {
  CHECK_INPUT(input);
  TORCH_CHECK(input.dim() == 2, "softmax wants a matrix");
  const at::cuda::OptionalCUDAGuard guard(device_of(input));
  auto output = torch::empty_like(input);
  const int rows = input.size(0);
  const int cols = input.size(1);
  constexpr int threads = 256;
  const size_t shared = threads * sizeof(float);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  softmax_kernel<threads><<<rows, threads, shared, stream>>>(
      input.data_ptr<float>(), output.data_ptr<float>(), cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &softmax_forward, "softmax (CUDA)");
}
