/* cutegen
idea = "the long sum cut into pieces kept apart in scratch, then added in one order: the same bits every time"

[let]
m = "A.shape[0]"
n = "B.shape[0]"
k = "A.shape[1]"

[params]
PIECES = { default = 4, values = [2, 4, 8] }

[[scratch]]
name  = "parts"
dtype = "float32"
shape = ["PIECES", "m", "n"]

[[launch]]
kernel = "partial<PIECES>"
grid   = ["ceil_div(n, 64)", "m", "PIECES"]
block  = ["64"]
args   = ["A", "B", "parts", "m", "n", "k"]

[[launch]]
kernel = "add_up<PIECES>"
grid   = ["ceil_div(m * n, 128)"]
block  = ["128"]
args   = ["parts", "out", "m * n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int PIECES>
__global__ __launch_bounds__(64) void partial(float const* a, float const* b, float* parts, int m, int n, int k) {
  Tensor ga = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor gb = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  Tensor gp = make_tensor(make_gmem_ptr(parts), make_shape(Int<PIECES>{}, m, n), LayoutRight{});
  int const col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y, piece = blockIdx.z;
  if (col >= n) return;
  int const length = ceil_div(k, PIECES);
  float sum = 0.0f;
  for (int p = piece * length; p < min(k, (piece + 1) * length); ++p) sum += ga(row, p) * gb(col, p);
  gp(piece, row, col) = sum;
}

template <int PIECES>
__global__ __launch_bounds__(128) void add_up(float const* parts, float* out, int count) {
  Tensor gp = make_tensor(make_gmem_ptr(parts), make_shape(Int<PIECES>{}, count), LayoutRight{});
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= count) return;
  float sum = 0.0f;
  CUTE_UNROLL
  for (int piece = 0; piece < PIECES; ++piece) sum += gp(piece, i);
  out[i] = sum;
}
