/* cutegen
idea = "one warp a row: a vote gives the positives of 32 columns, counting bits below the lane gives the rank"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "rank_of_positives"
grid   = ["ceil_div(rows, 4)"]
block  = ["128"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void rank_of_positives(float const* x, int* out, int rows, int cols) {
  int const row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Tensor source = make_tensor(make_gmem_ptr(x + long(row) * cols), make_layout(cols));
  Tensor target = make_tensor(make_gmem_ptr(out + long(row) * cols), make_layout(cols));
  int before = 0;
  for (int start = 0; start < cols; start += 32) {
    int const i = start + lane;
    unsigned const positive = __ballot_sync(0xffffffffu, i < cols && source(i) > 0.0f);
    unsigned const up_to_here = 0xffffffffu >> (31 - lane);
    if (i < cols) target(i) = before + __popc(positive & up_to_here);
    before += __popc(positive);
  }
}
