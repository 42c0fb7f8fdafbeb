/* cutegen
idea = "a thread an element; the benchmark has more elements than an int counts"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "brighten"
grid   = ["rows", "ceil_div(cols, 256)"]
block  = ["256"]
args   = ["x", "gain", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(256) void brighten(unsigned char const* x, int const* gain, unsigned char* out, int cols) {
  int const row = blockIdx.x, col = blockIdx.y * 256 + threadIdx.x;
  if (col >= cols) return;
  long const i = long(row) * cols + col;
  out[i] = (unsigned char)min(max(int(x[i]) + gain[row], 0), 255);
}
