/* cutegen
idea = "several 128-bit vectors in flight a thread, block and items tunable"

[let]
n = "out.numel"
extent = "(x.shape[1] // 2)"
extent2 = "x.shape[0]"
stride_x = "x.shape[1]"
offset = "1 * (x.shape[1] // 2) * 1"

[params]
BLOCK = { default = 512, values = [128, 256, 512, 1024] }
ITEMS = { default = 2, values = [1, 2, 4, 8] }

[[launch]]
kernel = "silu_and_mul_kernel<BLOCK, ITEMS>"
grid = ["ceil_div(n, BLOCK * ITEMS * 8)"]
block = ["BLOCK"]
args = ["x", "out", "n", "extent", "extent2", "stride_x", "offset"]

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

__device__ float silu_and_mul_of(float x_value, float x_value2) {
  float const t1 = x_value / (float(1) + expf(-x_value));
  float const t3 = t1 * x_value2;
  return t3;
}

// Several vectors of 8 elements a thread; the last n % 8 elements go one by one.
template <int BLOCK, int ITEMS>
__global__ __launch_bounds__(BLOCK) void silu_and_mul_kernel(
    cute::half_t const* x, cute::half_t* out, long n, int extent, int extent2, long stride_x, long offset) {
  using Wide = AutoVectorizingCopyWithAssumedAlignment<128>;
  constexpr int V = 8;
  long const vectors = n / V;
  auto const by_vector = make_layout(make_shape(Int<V>{}, vectors));
  Tensor mX = make_tensor(make_gmem_ptr(x), make_layout(make_shape(extent, extent2), make_stride(Int<1>{}, stride_x)));
  Tensor mX2 = make_tensor(make_gmem_ptr(x + offset), make_layout(make_shape(extent, extent2), make_stride(Int<1>{}, stride_x)));
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(n)));
  Tensor gOut = make_tensor(mOut.data(), by_vector);
  Tensor rOut = make_tensor<cute::half_t>(make_shape(Int<V>{}, Int<ITEMS>{}));

  long const first = long(blockIdx.x) * (BLOCK * ITEMS) + threadIdx.x;
  CUTE_UNROLL
  for (int item = 0; item < ITEMS; ++item) {
    long const j = first + item * BLOCK;
    if (j < vectors) {
      CUTE_UNROLL
      for (int v = 0; v < V; ++v) {
        rOut(v, item) = static_cast<cute::half_t>(silu_and_mul_of(static_cast<float>(mX(j * V + v)), static_cast<float>(mX2(j * V + v))));
      }
      copy(Wide{}, rOut(_, item), gOut(_, j));
    }
  }

  long const i = vectors * V + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && i < n) {
    mOut(i) = static_cast<cute::half_t>(silu_and_mul_of(static_cast<float>(mX(i)), static_cast<float>(mX2(i))));
  }
}
