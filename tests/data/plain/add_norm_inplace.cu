// In place, as a serving engine does it: x becomes the norm, residual the sum.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void fused_add_rms_norm_kernel(scalar_t* __restrict__ input, scalar_t* __restrict__ residual,
                                          const scalar_t* __restrict__ weight, const float epsilon,
                                          const int num_tokens, const int hidden_size) {
  __shared__ float partial[32];
  __shared__ float scale;
  float variance = 0.0f;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    scalar_t z = input[(int64_t)blockIdx.x * hidden_size + i];
    z += residual[(int64_t)blockIdx.x * hidden_size + i];
    float x = (float)z;
    variance += x * x;
    residual[(int64_t)blockIdx.x * hidden_size + i] = z;
  }
  for (int s = 16; s > 0; s /= 2) variance += __shfl_xor_sync(0xffffffffu, variance, s);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = variance;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int w = 0; w < (int)blockDim.x / 32; ++w) sum += partial[w];
    scale = rsqrtf(sum / hidden_size + epsilon);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    float x = (float)residual[(int64_t)blockIdx.x * hidden_size + i];
    input[(int64_t)blockIdx.x * hidden_size + i] = (scalar_t)(x * scale) * weight[i];
  }
}

void fused_add_rms_norm(torch::Tensor& input, torch::Tensor& residual, torch::Tensor& weight, double epsilon) {
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;
  dim3 grid(num_tokens);
  const int max_block_size = (num_tokens < 256) ? 1024 : 256;
  dim3 block(max_block_size);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "fused_add_rms_norm", [&] {
    fused_add_rms_norm_kernel<scalar_t><<<grid, block, 0, stream>>>(
        input.data_ptr<scalar_t>(), residual.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), epsilon, num_tokens,
        hidden_size);
  });
}
