/* cutegen
idea = "two int64 a thread with a grid-stride loop over the rows"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "masked_select"
grid   = ["ceil_div(cols, 64)", "min(rows, 4)"]
block  = ["64"]
args   = ["mask", "x", "other", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void masked_select(
    bool const* mask, long long const* x, long long const* other, long long* out, int rows, int cols) {
  auto layout = make_layout(make_shape(rows, cols), make_stride(cols, _1{}));
  Tensor chosen = make_tensor(make_gmem_ptr(mask), layout);
  Tensor source = make_tensor(make_gmem_ptr(x), layout);
  Tensor target = make_tensor(make_gmem_ptr(out), layout);
  int const col = blockIdx.x * 64 + threadIdx.x;
  if (col >= cols) return;
  for (int row = blockIdx.y; row < rows; row += gridDim.y)
    target(row, col) = chosen(row, col) ? source(row, col) : other[row];
}
