/* cutegen
idea = "cooperative groups: tiles of 16 threads a row, reduced by the group"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "row_normalise"
grid   = ["ceil_div(rows, 4)"]
block  = ["64"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cute/tensor.hpp>
using namespace cute;
namespace cg = cooperative_groups;

__global__ __launch_bounds__(64) void row_normalise(float const* x, float* out, int rows, int cols) {
  auto group = cg::tiled_partition<16>(cg::this_thread_block());
  int const row = blockIdx.x * 4 + group.meta_group_rank();
  if (row >= rows) return;
  Tensor source = make_tensor(make_gmem_ptr(x + long(row) * cols), make_layout(cols));
  Tensor target = make_tensor(make_gmem_ptr(out + long(row) * cols), make_layout(cols));
  float squares = 0.0f;
  for (int i = group.thread_rank(); i < cols; i += group.size()) squares += source(i) * source(i);
  squares = cg::reduce(group, squares, cg::plus<float>());
  float const length = sqrtf(squares), scale = 1.0f / (length < 1e-12f ? 1e-12f : length);
  for (int i = group.thread_rank(); i < cols; i += group.size()) target(i) = source(i) * scale;
}
