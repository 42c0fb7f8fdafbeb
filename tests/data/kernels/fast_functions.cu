/* cutegen
idea = "the fast intrinsics and approximate PTX instructions, side by side"

[let]
n = "x.numel"

[numerics]
allow = ["fast_math"]

[[launch]]
kernel = "fast_functions"
grid   = ["ceil_div(n, 128)"]
block  = ["128"]
args   = ["x", "out", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__device__ float fast_tanh(float x) {
  float result;
  asm volatile("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ float fast_exp2(float x) {
  float result;
  asm volatile("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__global__ void fast_functions(float const* x, float* out, int n) {
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  Tensor results = make_tensor(make_gmem_ptr(out), make_shape(_9{}, n), make_stride(n, _1{}));
  float const value = x[i];
  results(0, i) = __expf(value);
  results(1, i) = __logf(value);
  results(2, i) = __sinf(value);
  results(3, i) = __cosf(value);
  results(4, i) = __powf(value, 1.7f);
  results(5, i) = __fdividef(1.5f, value);
  results(6, i) = rsqrtf(value);
  results(7, i) = fast_tanh(value);
  results(8, i) = fast_exp2(value);
}
