/* cutegen
idea = "sums of squares into scratch, then scale; long rows stage the weight in shared memory"

[let]
rows = "x.shape[0]"
dim = "x.shape[-1]"
inverse = "1.0 * (dim > 0 and 1)"
staged = "dim * weight.itemsize if dim >= 64 else 0"

[params]
BLOCK = { default = 128, values = [64, 128, 256] }
ROWS = { default = 2, values = [1, 2, 4] }

[[scratch]]
name = "sums"
dtype = "float32"
shape = ["round_up(rows, ROWS)"]
init = "zero"

[[launch]]
kernel = "sum_squares<BLOCK>"
grid   = ["rows", "min(ceil_div(dim, BLOCK), 4)"]
block  = ["BLOCK"]
args   = ["x", "sums", "dim"]

[[launch]]
kernel = "scale<BLOCK, false>"
when   = "dim < 64 or staged > smem_max"
grid   = ["rows"]
block  = ["BLOCK"]
args   = ["x", "weight", "sums", "out", "dim", "eps"]

[[launch]]
kernel = "scale<BLOCK, true>"
when   = "dim >= 64 and not staged > smem_max"
grid   = ["rows"]
block  = ["BLOCK"]
smem   = "staged"
args   = ["x", "weight", "sums", "out", "dim", "eps"]
*/
#include <cute/tensor.hpp>
using namespace cute;

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void sum_squares(float const* x, float* sums, int dim) {
  auto row = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * dim), make_layout(dim));
  float sum = 0.0f;
  for (int i = blockIdx.y * BLOCK + threadIdx.x; i < dim; i += BLOCK * gridDim.y) sum += row(i) * row(i);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(&sums[blockIdx.x], sum);
}

template <int BLOCK, bool STAGED>
__global__ __launch_bounds__(BLOCK) void scale(
    float const* x, float const* weight, float const* sums, float* out, int dim, float eps) {
  extern __shared__ float shared[];
  if constexpr (STAGED) {
    for (int i = threadIdx.x; i < dim; i += BLOCK) shared[i] = weight[i];
    __syncthreads();
  }
  auto source = make_tensor(make_gmem_ptr(x + long(blockIdx.x) * dim), make_layout(dim));
  auto result = make_tensor(make_gmem_ptr(out + long(blockIdx.x) * dim), make_layout(dim));
  float const factor = rsqrtf(sums[blockIdx.x] / dim + eps);
  for (int i = threadIdx.x; i < dim; i += BLOCK) result(i) = source(i) * factor * (STAGED ? shared[i] : weight[i]);
}
