/* cutegen
idea = "a block a token; a thread rotates one pair at a time"

[let]
tokens = "query.shape[0]"
heads = "query.shape[1]"
kv_heads = "key.shape[1]"
half_size = "query.shape[2] // 2"

[[launch]]
kernel = "rotary_embedding"
grid   = ["tokens"]
block  = ["min(round_up(heads * half_size, 32), 512)"]
args   = ["positions", "query", "key", "cos_sin_cache", "out0", "out1", "heads", "kv_heads", "half_size"]

[numerics]
accumulate = "float32"
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ void rotate(bfloat16_t const* x, bfloat16_t* out, float const* cos_sin, int head, int pair, int half) {
  int const first = head * 2 * half + pair, second = first + half;
  float const a = float(x[first]), b = float(x[second]);
  float const cosine = cos_sin[pair], sine = cos_sin[half + pair];
  out[first] = bfloat16_t(a * cosine - b * sine);
  out[second] = bfloat16_t(b * cosine + a * sine);
}

__global__ void rotary_embedding(
    long long const* positions, bfloat16_t const* query, bfloat16_t const* key, float const* cos_sin_cache,
    bfloat16_t* query_out, bfloat16_t* key_out, int heads, int kv_heads, int half) {
  long const token = blockIdx.x;
  float const* cos_sin = cos_sin_cache + positions[token] * 2 * half;
  long const at_query = token * heads * 2 * half, at_key = token * kv_heads * 2 * half;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x)
    rotate(query + at_query, query_out + at_query, cos_sin, i / half, i % half, half);
  for (int i = threadIdx.x; i < kv_heads * half; i += blockDim.x)
    rotate(key + at_key, key_out + at_key, cos_sin, i / half, i % half, half);
}
