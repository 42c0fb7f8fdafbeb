/* cutegen
idea = "one block a group, kept in shared memory between the two passes"

[let]
groups = "x.shape[0] * 4"
channels = "x.shape[1]"
length = "x.shape[2]"
count = "channels // 4 * length"

[[launch]]
kernel = "group_norm<128>"
grid   = ["groups"]
block  = ["128"]
smem   = "count * 4"
when   = "count * 4 <= smem_max"
args   = ["x", "norm_weight", "norm_bias", "out", "channels", "length", "norm_eps"]

[[launch]]
kernel = "group_norm_streaming<128>"
grid   = ["groups"]
block  = ["128"]
when   = "not count * 4 <= smem_max"
args   = ["x", "norm_weight", "norm_bias", "out", "channels", "length", "norm_eps"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK>
__device__ float block_sum(float value) {
  __shared__ float partial[BLOCK / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0f;
  for (int warp = 0; warp < BLOCK / 32; ++warp) value += partial[warp];
  __syncthreads();
  return value;
}

// `values` holds the group between the passes: shared memory, or where it came from.
template <int BLOCK, class Values>
__device__ void normalise(
    Values const& values, float const* weight, float const* bias, float* out, int channels, int length, float eps) {
  int const per_group = channels / 4, count = size(values), first = blockIdx.x % 4 * per_group;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < count; i += BLOCK) sum += values(i);
  float const mean = block_sum<BLOCK>(sum) / count;
  for (int i = threadIdx.x; i < count; i += BLOCK) squares += (values(i) - mean) * (values(i) - mean);
  float const scale = rsqrtf(block_sum<BLOCK>(squares) / count + eps);
  for (int i = threadIdx.x; i < count; i += BLOCK) {
    int const channel = first + i / length;
    out[long(blockIdx.x) * count + i] = (values(i) - mean) * scale * weight[channel] + bias[channel];
  }
}

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void group_norm(
    float const* x, float const* weight, float const* bias, float* out, int channels, int length, float eps) {
  extern __shared__ float shared[];
  auto layout = make_layout(channels / 4 * length);
  Tensor source = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * size(layout)), layout);
  Tensor values = make_tensor(make_smem_ptr(shared), layout);
  for (int i = threadIdx.x; i < size(layout); i += BLOCK) values(i) = source(i);
  __syncthreads();
  normalise<BLOCK>(values, weight, bias, out, channels, length, eps);
}

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void group_norm_streaming(
    float const* x, float const* weight, float const* bias, float* out, int channels, int length, float eps) {
  auto layout = make_layout(channels / 4 * length);
  Tensor source = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * size(layout)), layout);
  normalise<BLOCK>(source, weight, bias, out, channels, length, eps);
}
