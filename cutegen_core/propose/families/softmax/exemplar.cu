/* cutegen
idea = "rows read once with 128-bit loads and kept in registers, block and items tunable"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = { default = 256, values = [128, 256, 512, 1024] }
ITEMS = { default = 4, values = [1, 2, 4, 8] }

[[launch]]
kernel = "softmax_kernel<BLOCK, ITEMS>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out", "rows", "cols"]
when = "cols % 4 == 0 and cols <= BLOCK * ITEMS * 4"

[[launch]]
kernel = "softmax_kernel_streaming<BLOCK>"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "out", "rows", "cols"]
when = "not (cols % 4 == 0 and cols <= BLOCK * ITEMS * 4)"

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

// The larger one; NaN when either is NaN, as in PyTorch.
template <class T>
__device__ T max_of(T a, T b) { return a > b || a != a ? a : b; }

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b; }
};

struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const { return max_of(a, b); }
};

// Combines one value a thread; every thread gets the result.
template <int BLOCK, class T, class Op>
__device__ T block_reduce(T value, T identity, Op op) {
  static_assert(BLOCK % 32 == 0, "BLOCK must be a multiple of 32");
  __shared__ T partial[BLOCK / 32];
  CUTE_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  int const lane = threadIdx.x % 32;
  value = lane < BLOCK / 32 ? partial[lane] : identity;
  CUTE_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  __syncthreads();
  return value;
}

// One block, one row, read once with 128-bit loads and kept in registers between the passes.
// For rows that are a whole number of vectors and fit BLOCK * ITEMS of them; the plan sends others to the kernel below.
template <int BLOCK, int ITEMS>
__global__ __launch_bounds__(BLOCK) void softmax_kernel(float const* x, float* out, int rows, int cols) {
  using Wide = AutoVectorizingCopyWithAssumedAlignment<128>;
  constexpr int V = 4;
  int const row = blockIdx.x;
  int const vectors = cols / V;
  Tensor mX = make_tensor(make_gmem_ptr(x), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gX = make_tensor(mX(_, row).data(), make_layout(make_shape(Int<V>{}, vectors)));
  Tensor rX = make_tensor<float>(make_shape(Int<V>{}, Int<ITEMS>{}));
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gOut = make_tensor(mOut(_, row).data(), make_layout(make_shape(Int<V>{}, vectors)));
  Tensor rOut = make_tensor<float>(make_shape(Int<V>{}, Int<ITEMS>{}));
  CUTE_UNROLL
  for (int item = 0; item < ITEMS; ++item) {
    int const j = threadIdx.x + item * BLOCK;
    if (j < vectors) {
      copy(Wide{}, gX(_, j), rX(_, item));
    }
  }
  float max1_so_far = float(-INFINITY);

  CUTE_UNROLL
  for (int item = 0; item < ITEMS; ++item) {
    if (threadIdx.x + item * BLOCK < vectors) {
      CUTE_UNROLL
      for (int v = 0; v < V; ++v) {
        float const x_value = static_cast<float>(rX(v, item));
        max1_so_far = Max{}(max1_so_far, x_value);
      }
    }
  }
  float const max1 = block_reduce<BLOCK>(max1_so_far, float(-INFINITY), Max{});
  float sum4_so_far = float(0);

  CUTE_UNROLL
  for (int item = 0; item < ITEMS; ++item) {
    if (threadIdx.x + item * BLOCK < vectors) {
      CUTE_UNROLL
      for (int v = 0; v < V; ++v) {
        float const x_value = static_cast<float>(rX(v, item));
        float const t2 = x_value - max1;
        float const t3 = expf(t2);
        sum4_so_far = Sum{}(sum4_so_far, t3);
      }
    }
  }
  float const sum4 = block_reduce<BLOCK>(sum4_so_far, float(0), Sum{});
  CUTE_UNROLL
  for (int item = 0; item < ITEMS; ++item) {
    int const j = threadIdx.x + item * BLOCK;
    if (j < vectors) {
      CUTE_UNROLL
      for (int v = 0; v < V; ++v) {
        float const x_value = static_cast<float>(rX(v, item));
        float const t2 = x_value - max1;
        float const t3 = expf(t2);
        float const t5 = t3 / sum4;
        rOut(v, item) = static_cast<float>(t5);
      }
      copy(Wide{}, rOut(_, item), gOut(_, j));
    }
  }
}

// One block, one row: threads stride over it, warp shuffles and one exchange through shared memory combine them.
template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void softmax_kernel_streaming(float const* x, float* out, int rows, int cols) {
  int const row = blockIdx.x;
  Tensor mX = make_tensor(make_gmem_ptr(x), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gX = mX(_, row);
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(cols, rows), make_stride(Int<1>{}, long(cols))));
  Tensor gOut = mOut(_, row);

  float max1_so_far = float(-INFINITY);

  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    max1_so_far = Max{}(max1_so_far, x_value);
  }
  float const max1 = block_reduce<BLOCK>(max1_so_far, float(-INFINITY), Max{});
  float sum4_so_far = float(0);

  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    float const t2 = x_value - max1;
    float const t3 = expf(t2);
    sum4_so_far = Sum{}(sum4_so_far, t3);
  }
  float const sum4 = block_reduce<BLOCK>(sum4_so_far, float(0), Sum{});
  for (int j = threadIdx.x; j < cols; j += BLOCK) {
    float const x_value = static_cast<float>(gX(j));
    float const t2 = x_value - max1;
    float const t3 = expf(t2);
    float const t5 = t3 / sum4;
    gOut(j) = static_cast<float>(t5);
  }
}
