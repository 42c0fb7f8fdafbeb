// The grid comes from helper functions, one of them with conditions; the block from a tuned number.
#include <algorithm>
#include <cuda_runtime.h>

namespace detail {
constexpr int kThreads = 128;
template <typename T>
inline T ceil_div(T a, T b) { return (a + b - 1) / b; }

inline int get_blocks(long long n) {
  int most = 65535;
  if (n <= 0) return 1;
  return std::min(static_cast<long long>(most), ceil_div(n, static_cast<long long>(kThreads)));
}
}  // namespace detail

__global__ void gelu(float const* x, float* y, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
}

void launch_gelu(float const* x, float* y, long long num_elements, cudaStream_t stream) {
  if (num_elements == 0) return;
  gelu<<<detail::get_blocks(num_elements), detail::kThreads, 0, stream>>>(x, y, num_elements);
}
