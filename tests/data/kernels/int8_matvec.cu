/* cutegen
idea = "one warp a row, four products an instruction (dp4a), sums folded with shuffles"

[let]
rows = "A.shape[0]"
words = "A.shape[1] // 4"

[[launch]]
kernel = "int8_matvec"
grid   = ["ceil_div(rows, 4)"]
block  = ["128"]
args   = ["A", "x", "out", "rows", "words"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// The length of a row is a multiple of 4.
__global__ __launch_bounds__(128) void int8_matvec(
    signed char const* a, signed char const* x, int* out, int rows, int words) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Tensor ga = make_tensor(make_gmem_ptr(reinterpret_cast<int const*>(a)), make_shape(rows, words),
                          make_stride(words, _1{}));
  Tensor gx = make_tensor(make_gmem_ptr(reinterpret_cast<int const*>(x)), make_layout(words));
  int sum = 0;
  for (int k = lane; k < words; k += 32) sum = __dp4a(ga(row, k), gx(k), sum);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) out[row] = sum;
}
