/* cutegen
idea = "one warp a row, the warp's own integer reductions"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "integer_rows"
grid   = ["rows"]
block  = ["32"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(32) void integer_rows(int const* x, int* out, int rows, int cols) {
  Tensor row = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * cols), make_layout(cols));
  Tensor results = make_tensor(make_gmem_ptr(out), make_shape(_3{}, rows), make_stride(rows, _1{}));
  int sum = 0, largest = INT_MIN;
  unsigned parity = 0;
  for (int i = threadIdx.x; i < cols; i += 32) {
    sum += row(i);
    largest = max(largest, row(i));
    parity ^= unsigned(row(i));
  }
  sum = __reduce_add_sync(0xffffffffu, sum);
  largest = __reduce_max_sync(0xffffffffu, largest);
  parity = __reduce_xor_sync(0xffffffffu, parity);
  if (threadIdx.x == 0) results(0, blockIdx.x) = sum, results(1, blockIdx.x) = largest, results(2, blockIdx.x) = parity;
}
