/* cutegen
idea = "one warp a row, mean and variance in one pass (Welford), merged with shuffles"

[let]
rows = "x.numel // x.shape[-1]"
cols = "x.shape[-1]"

[[launch]]
kernel = "layernorm_warp"
grid   = ["ceil_div(rows, 4)"]
block  = ["128"]
args   = ["x", "norm_weight", "norm_bias", "out", "rows", "cols", "norm_eps"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// Mean and sum of squared deviations of `count` values.
struct Moments {
  float count, mean, squares;
};

// Chan, Golub, LeVeque: the moments of two sets together.
__device__ Moments merged(Moments a, Moments b) {
  float const count = a.count + b.count;
  if (count == 0.0f) return a;
  float const delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__global__ __launch_bounds__(128) void layernorm_warp(
    float const* x, float const* weight, float const* bias, float* out, int rows, int cols, float eps) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Tensor source = make_tensor(make_gmem_ptr(x + long(row) * cols), make_layout(cols));
  Tensor target = make_tensor(make_gmem_ptr(out + long(row) * cols), make_layout(cols));
  Moments mine{0.0f, 0.0f, 0.0f};
  for (int i = lane; i < cols; i += 32) mine = merged(mine, {1.0f, source(i), 0.0f});
  for (int offset = 16; offset > 0; offset /= 2) {
    Moments const other{__shfl_xor_sync(0xffffffffu, mine.count, offset),
                        __shfl_xor_sync(0xffffffffu, mine.mean, offset),
                        __shfl_xor_sync(0xffffffffu, mine.squares, offset)};
    // Both lanes of a pair merge in the same order, so that all end with the same bits.
    mine = lane & offset ? merged(other, mine) : merged(mine, other);
  }
  float const scale = rsqrtf(mine.squares / cols + eps);
  for (int i = lane; i < cols; i += 32) target(i) = (source(i) - mine.mean) * scale * weight[i] + bias[i];
}
