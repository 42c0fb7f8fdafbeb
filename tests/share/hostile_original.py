"""An original file and a new kernel that share every kind of name, and all that a namespace could break."""

ORIGINAL = """\
/* A licence. */
#ifndef ENGINE_NORM_CU
#define ENGINE_NORM_CU
#define T double
#define BLOCK 64
#define view 3
#include <cuda_runtime.h>
#include <cuda_fp16.h>

using namespace std;
constexpr int ITEMS = 4;
typedef double2 Pair;
__constant__ double table[4];
__device__ double counter;

namespace helpers {
template <int N>
__device__ double reduce(double value, double* shared) { return value * shared[N]; }
}
using namespace helpers;

struct Accumulator { double most; __device__ void add(double value) { most = most > value ? most : value; } };
enum Mode { PLAIN, WIDE };

__device__ float atomicMax(float* place, float value) { return *place > value ? *place : value; }
template <int N> __device__ double own(double value) { return value * table[0] * ITEMS; }

extern "C" __global__ void norm_rows(const double* x, double* out, int cols) {
  extern __shared__ double memory[];
  Accumulator found{0};
  found.add(reduce<3>(x[threadIdx.x], memory) + own<2>(x[0]) + PLAIN + BLOCK);
  out[threadIdx.x] = found.most;
}

__global__ void relu_rows(const float* x, float* out, long n) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] > 0.0f || isnan(x[i]) ? x[i] : 0.0f;
}
__global__ void in_a_table(float* out) { *out = 1.0f; }
__global__ void in_a_macro(float* out) { *out = 2.0f; }
static const void* kernels[] = {(const void*)in_a_table};
#define LAUNCH_OTHER(place) in_a_macro<<<1, 1>>>(place)

int relu_launch(int rows) { return rows; }
size_t relu_workspace_bytes(int rows) { return 0; }

void other(const double* x, double* out, int cols, cudaStream_t stream) {
  norm_rows<<<1, BLOCK, 64 * sizeof(T), stream>>>(x, out, cols);
  relu_launch(cols);
}

void relu(const float* x, float* out, long n, cudaStream_t stream) {
  relu_rows<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
}

void after(float* out) {
  LAUNCH_OTHER(out);
  cudaLaunchKernel(kernels[0], dim3(1), dim3(1), nullptr, 0, nullptr);
  Pair pair{view, ITEMS};
  (void)pair;
}
#endif
"""

KERNEL = """\
/* cutegen
idea = "everything that the original has by the same name, meaning something else"
[params]
BLOCK = 128
[[launch]]
kernel = "norm_rows<WIDTH, Chosen, (Mode)1>"
grid = ["ceil_div(out.numel, BLOCK)"]
block = ["BLOCK"]
smem = "4 * BLOCK"
args = ["x", "out", "out.numel"]
*/
#include <math_constants.h>
using namespace cute;
constexpr int ITEMS = 8;
#include <cooperative_groups.h>
#define T float
#define WIDTH 4
#define view(value) (value)
#define cols n
typedef float2 Pair;
__constant__ float table[4] = {1.0f, 1.0f, 1.0f, 1.0f};
__device__ int counter;

namespace helpers {
template <int N>
__device__ T reduce(T value, char* shared) { reinterpret_cast<T*>(shared)[threadIdx.x] = value; return value; }
}

__device__ T max(T a, T b, T c) { return max(a, max(b, c)); }
namespace {
__device__ T positive(T value) { return ::fmaxf(value, 0.0f); }
}

struct Accumulator { T most; __device__ void add(T value) { most = max(most, value, value); } };
enum Mode { NARROW, PLAIN };
struct Chosen { static constexpr int items = ITEMS; };

namespace cute {
struct AddedToCute { using Value = Accumulator; };
}

__device__ T atomicMax(T* place, T value) {
  return __int_as_float(atomicMax(reinterpret_cast<int*>(place), __float_as_int(value)));
}
template <int N> __device__ T own(T value) { return ::positive(value) * ::table[0]; }

template <int N, class Choice, Mode M>
__global__ void norm_rows(T const* __restrict__ x, T* __restrict__ out, long cols) {
  extern __shared__ char memory[];
  cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
  cute::AddedToCute::Value found{0.0f};
  long const i = (long)blockIdx.x * BLOCK + threadIdx.x;
  if (i < cols) {
    T const value = helpers::reduce<N>(view(x[i]), memory);
    found.add(::own<N>(value));
    if (M == NARROW && Choice::items == 3) atomicMax(out, CUDART_INF_F);
    out[i] = isnan(value) ? value : found.most;
  }
  block.sync();
}
"""
