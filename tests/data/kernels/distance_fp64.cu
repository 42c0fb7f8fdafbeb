/* cutegen
idea = "one warp a row in float64, two elements a load"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "distance"
grid   = ["ceil_div(rows, 4)"]
block  = ["32", "4"]
args   = ["x", "y", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(128) void distance(double const* x, double const* y, double* out, int rows, int cols) {
  int const row = blockIdx.x * 4 + threadIdx.y;
  if (row >= rows) return;
  Tensor gx = make_tensor(make_gmem_ptr(x + long(row) * cols), make_layout(cols));
  Tensor gy = make_tensor(make_gmem_ptr(y + long(row) * cols), make_layout(cols));
  double sum = 0.0;
  for (int i = threadIdx.x; i < cols; i += 32) {
    double const apart = gx(i) - gy(i);
    sum += apart * apart;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x == 0) out[row] = sqrt(sum);
}
