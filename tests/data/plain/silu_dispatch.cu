// Templates over the type with AT_DISPATCH; the type is that of the problem.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/all.h>

namespace engine {

template <typename T>
__device__ __forceinline__ float to_float(T value) { return static_cast<float>(value); }

template <typename T>
__device__ __forceinline__ T silu(T const& value) {
  float const x = to_float(value);
  return static_cast<T>(x / (1.0f + expf(-x)));
}

template <typename scalar_t, scalar_t (*ACT)(scalar_t const&) = silu<scalar_t>>
__global__ void act_and_mul_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ input, const int d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const scalar_t x = input[token * 2 * d + i];
    const scalar_t y = input[token * 2 * d + d + i];
    float const gate = to_float(x) / (1.0f + expf(-to_float(x)));
    out[token * d + i] = static_cast<scalar_t>(gate * to_float(y));
  }
}

}  // namespace engine

void silu_and_mul(torch::Tensor& out,    // [..., d]
                  torch::Tensor& input)  // [..., 2 * d]
{
  int d = input.size(-1) / 2;
  int64_t num_tokens = input.numel() / input.size(-1);
  dim3 grid(num_tokens);
  dim3 block(std::min(d, 1024));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "silu", [&] {
    engine::act_and_mul_kernel<scalar_t><<<grid, block, 0, stream>>>(
        out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), d);
  });
}
