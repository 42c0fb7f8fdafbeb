/* cutegen
idea = "one block a row, combined with warp shuffles"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = 256

[[launch]]
kernel = "layernorm_kernel<BLOCK>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "norm_weight", "norm_bias", "out", "rows", "cols"]

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b; }
};

// Combines one value a thread; every thread gets the result.
template <int BLOCK, class T, class Op>
__device__ T block_reduce(T value, T identity, Op op) {
  static_assert(BLOCK % 32 == 0, "BLOCK must be a multiple of 32");
  __shared__ T partial[BLOCK / 32];
  CUTE_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  int const lane = threadIdx.x % 32;
  value = lane < BLOCK / 32 ? partial[lane] : identity;
  CUTE_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  __syncthreads();
  return value;
}

// One block, one row: threads stride over it, warp shuffles and one exchange through shared memory combine them.
template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void layernorm_kernel(
    float const* x, float const* norm_weight, float const* norm_bias, float* out, int rows, int cols) {
  int const row = blockIdx.x;
  Tensor mX = make_tensor(make_gmem_ptr(x), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gX = mX(_, row);
  Tensor mNorm_weight = make_tensor(make_gmem_ptr(norm_weight), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, Int<0>{})));
  Tensor gNorm_weight = mNorm_weight(_, row);
  Tensor mNorm_bias = make_tensor(make_gmem_ptr(norm_bias), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, Int<0>{})));
  Tensor gNorm_bias = mNorm_bias(_, row);
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gOut = mOut(_, row);

  float sum1_so_far = float(0);

  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    sum1_so_far = Sum{}(sum1_so_far, x_value);
  }
  float const sum1 = block_reduce<BLOCK>(sum1_so_far, float(0), Sum{});
  float const t2 = sum1 / cols;
  float sum5_so_far = float(0);

  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    float const t3 = x_value - t2;
    float const t4 = t3 * t3;
    sum5_so_far = Sum{}(sum5_so_far, t4);
  }
  float const sum5 = block_reduce<BLOCK>(sum5_so_far, float(0), Sum{});
  float const t6 = sum5 / cols;
  float const t7 = t6 + 1e-05f;
  float const t8 = float(1) / sqrtf(t7);
  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    float const t3 = x_value - t2;
    float const t9 = t3 * t8;
    float const norm_weight_value = static_cast<float>(gNorm_weight(j));
    float const t11 = t9 * norm_weight_value;
    float const norm_bias_value = static_cast<float>(gNorm_bias(j));
    float const t13 = t11 + norm_bias_value;
    gOut(j) = static_cast<float>(t13);
  }
}
