/* cutegen
idea = "a block a token; k rounds, each finds the largest logit that no round has taken"

[let]
tokens = "logits.shape[0]"
experts = "logits.shape[1]"

[[launch]]
kernel = "topk_softmax"
grid   = ["tokens"]
block  = [128]
smem   = "8 * k"
args   = ["logits", "out0", "out1", "experts", "k"]

[numerics]
accumulate = "float32"
*/
#include <cute/tensor.hpp>
using namespace cute;

// Whether the first of two experts goes before the second: NaN, then falling; of equal logits the lower id.
__device__ bool goes_before(float a, int a_id, float b, int b_id) {
  if (b_id < 0) return a_id >= 0;
  if (a_id < 0) return false;
  bool const a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan && b_nan ? a_id < b_id : a_nan;
  return a > b || (a == b && a_id < b_id);
}

__global__ __launch_bounds__(128) void topk_softmax(
    float const* logits, float* weights, int* ids, int experts, int k) {
  extern __shared__ float taken[];
  int* taken_ids = reinterpret_cast<int*>(taken + k);
  __shared__ float values[128];
  __shared__ int places[128];
  float const* row = logits + long(blockIdx.x) * experts;
  for (int round = 0; round < k; ++round) {
    float best = 0.0f;
    int place = -1;
    for (int i = threadIdx.x; i < experts; i += 128) {
      bool free = true;
      for (int j = 0; j < round; ++j) free = free && taken_ids[j] != i;
      if (free && goes_before(row[i], i, best, place)) {
        best = row[i];
        place = i;
      }
    }
    values[threadIdx.x] = best;
    places[threadIdx.x] = place;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        int const other = threadIdx.x + half;
        if (goes_before(values[other], places[other], values[threadIdx.x], places[threadIdx.x])) {
          values[threadIdx.x] = values[other];
          places[threadIdx.x] = places[other];
        }
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      taken[round] = values[0];
      taken_ids[round] = places[0];
    }
    __syncthreads();
  }
  if (threadIdx.x < k) {
    float sum = 0.0f;
    for (int j = 0; j < k; ++j) sum += expf(taken[j] - taken[0]);
    long const at = long(blockIdx.x) * k + threadIdx.x;
    weights[at] = expf(taken[threadIdx.x] - taken[0]) / sum;
    ids[at] = taken_ids[threadIdx.x];
  }
}
