/* cutegen
idea = "value and index in one 64-bit number whose order is that of the values; blocks meet in an atomic maximum"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[scratch]]
name  = "best"
dtype = "int64"
shape = ["rows"]
init  = "zero"

[[launch]]
kernel = "find_largest"
grid   = ["ceil_div(cols, 1024)", "rows"]
block  = ["256"]
args   = ["x", "best", "cols"]

[[launch]]
kernel = "unpack"
grid   = ["ceil_div(rows, 128)"]
block  = ["128"]
args   = ["best", "out", "rows"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// Larger floats give larger numbers; of equal ones the first wins.
__device__ unsigned long long packed(float value, int index) {
  unsigned const bits = __float_as_uint(value);
  unsigned const ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (unsigned long long)ordered << 32 | (0xffffffffu - unsigned(index));
}

__global__ __launch_bounds__(256) void find_largest(float const* x, unsigned long long* best, int cols) {
  Tensor row = make_tensor(make_gmem_ptr(x + long(blockIdx.y) * cols), make_layout(cols));
  unsigned long long mine = 0;
  int const first = blockIdx.x * 1024;
  for (int i = first + threadIdx.x; i < min(first + 1024, cols); i += 256) mine = max(mine, packed(row(i), i));
  for (int offset = 16; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
  if (threadIdx.x % 32 == 0) atomicMax(&best[blockIdx.y], mine);
}

__global__ void unpack(unsigned long long const* best, long long* out, int rows) {
  int const row = blockIdx.x * 128 + threadIdx.x;
  if (row < rows) out[row] = 0xffffffffu - unsigned(best[row] & 0xffffffffu);
}
