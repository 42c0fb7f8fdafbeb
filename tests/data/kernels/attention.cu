/* cutegen
idea = "keys and values in tiles of 32 through shared memory, one query a thread, the softmax kept running"

[let]
heads = "q.shape[0] * q.shape[1]"
length = "q.shape[2]"
scale = "q.shape[3] ** -0.5"

[[launch]]
kernel = "attention<32>"
grid   = ["ceil_div(length, 32)", "heads"]
block  = ["32"]
args   = ["q", "k", "v", "out", "length", "scale"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int D>
__global__ __launch_bounds__(32) void attention(
    float const* q, float const* k, float const* v, float* out, int length, float scale) {
  __shared__ float keys_data[32 * D];
  __shared__ float values_data[32 * D];
  auto tile = make_layout(make_shape(_32{}, Int<D>{}), LayoutRight{});
  Tensor keys = make_tensor(make_smem_ptr(keys_data), tile);
  Tensor values = make_tensor(make_smem_ptr(values_data), tile);

  auto head = make_layout(make_shape(length, Int<D>{}), LayoutRight{});
  long const offset = long(blockIdx.y) * length * D;
  Tensor gq = make_tensor(make_gmem_ptr(q + offset), head);
  Tensor gk = make_tensor(make_gmem_ptr(k + offset), head);
  Tensor gv = make_tensor(make_gmem_ptr(v + offset), head);
  Tensor go = make_tensor(make_gmem_ptr(out + offset), head);

  int const row = blockIdx.x * 32 + threadIdx.x;
  Tensor query = make_tensor<float>(Int<D>{});
  Tensor sums = make_tensor<float>(Int<D>{});
  clear(sums);
  for (int d = 0; d < D; ++d) query(d) = row < length ? gq(row, d) * scale : 0.0f;
  float largest = -FLT_MAX, total = 0.0f;
  // Causal: tiles of keys up to this block's last query.
  for (int start = 0; start <= int(blockIdx.x) * 32; start += 32) {
    for (int i = threadIdx.x; i < 32 * D; i += 32) {
      int const key = start + i / D, d = i % D;
      keys(i / D, d) = key < length ? gk(key, d) : 0.0f;
      values(i / D, d) = key < length ? gv(key, d) : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < 32 && start + j <= row; ++j) {
      float score = 0.0f;
      CUTE_UNROLL
      for (int d = 0; d < D; ++d) score += query(d) * keys(j, d);
      float const larger = fmaxf(largest, score), shrink = expf(largest - larger), weight = expf(score - larger);
      CUTE_UNROLL
      for (int d = 0; d < D; ++d) sums(d) = sums(d) * shrink + weight * values(j, d);
      total = total * shrink + weight;
      largest = larger;
    }
    __syncthreads();
  }
  if (row < length)
    for (int d = 0; d < D; ++d) go(row, d) = sums(d) / total;
}
