/* cutegen
idea = "the long sum cut into pieces, one block each, added with atomics into zeroed scratch"

[let]
m = "A.shape[0]"
n = "B.shape[0]"
k = "A.shape[1]"
piece = "round_up(ceil_div(k, 4), 8)"

[[scratch]]
name  = "total"
dtype = "float32"
shape = ["m", "n"]
init  = "zero"

[numerics]
deterministic = false

[[launch]]
kernel = "partial"
grid   = ["ceil_div(n, 16)", "ceil_div(m, 16)", "ceil_div(k, piece)"]
block  = ["16", "16"]
args   = ["A", "B", "total", "m", "n", "k", "piece"]

[[launch]]
kernel = "finish"
grid   = ["ceil_div(m * n, 256)"]
block  = ["256"]
args   = ["total", "out", "m * n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void partial(float const* a, float const* b, float* total, int m, int n, int k, int piece) {
  __shared__ float sa[16][17], sb[16][17];
  Tensor ga = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor gb = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  int const row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  int const other = blockIdx.x * 16 + threadIdx.y;
  int const first = blockIdx.z * piece, last = min(k, first + piece);
  float sum = 0.0f;
  for (int start = first; start < last; start += 16) {
    int const depth = start + threadIdx.x;
    sa[threadIdx.y][threadIdx.x] = row < m && depth < last ? ga(row, depth) : 0.0f;
    sb[threadIdx.y][threadIdx.x] = other < n && depth < last ? gb(other, depth) : 0.0f;
    __syncthreads();
    for (int p = 0; p < 16; ++p) sum += sa[threadIdx.y][p] * sb[threadIdx.x][p];
    __syncthreads();
  }
  if (row < m && col < n) atomicAdd(&total[row * n + col], sum);
}

__global__ void finish(float const* total, float* out, int count) {
  int const i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) out[i] = total[i];
}
