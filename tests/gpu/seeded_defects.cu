/* cutegen
idea = "one defect a kernel, and kernels with a known bottleneck, for the tests of NVIDIA's tools"

[[launch]]
kernel = "clean_sum"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "read_past_end"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "write_past_end<4>"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "copy_past_end"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "misaligned"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "shared_past_end"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "race"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "uninitialised"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "divergent_barrier"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "endless"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "bank_conflicts"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "strided_copy"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]

[[launch]]
kernel = "vector_copy<256>"
grid = ["1"]
block = ["64"]
args = ["x", "out", "x.numel"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// x has n floats, out has 64; 64 threads unless said otherwise
__global__ void clean_sum(float const* x, float* out, int n) {
  __shared__ float part[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int s = 32; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (i < n) out[i] = part[0];
}

__global__ void read_past_end(float const* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + x[i + 1];  // read_past_end
}

template <int BY>
__global__ void write_past_end(float const* x, float* out, int n) {
  auto result = make_tensor(make_gmem_ptr(out), make_layout(n));
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  result(i + BY) = x[i];  // write_past_end
}

__global__ void copy_past_end(float const* x, float* out, int n) {
  auto from = make_tensor(make_gmem_ptr(x), make_layout(n / 16));
  auto to = make_tensor(make_gmem_ptr(out + n - 3), make_layout(n / 16));
  if (threadIdx.x == 0) copy(from, to);  // copy_past_end
}

__global__ void misaligned(float const* x, float* out, int n) {
  int i = threadIdx.x;
  if (i == 3) *reinterpret_cast<float4*>(out) = *reinterpret_cast<float4 const*>(x + 1);  // misaligned
}

__global__ void shared_past_end(float const* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i + 1] = x[i];  // shared_past_end
  __syncthreads();
  out[i] = tile[i];
}

__global__ void race(float const* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  out[i] = tile[63 - i];  // race
}

__global__ void uninitialised(float const* x, float* out, int n) {
  int i = threadIdx.x;
  out[i] += x[i];  // uninitialised
}

__global__ void divergent_barrier(float const* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (i % 2) __syncthreads();  // divergent_barrier
  out[i] = tile[63 - i];
}

__global__ void endless(float const* x, float* out, int n) {
  while (*reinterpret_cast<float const volatile*>(x) >= 0.0f || n) out[0] += 1.0f;
}

__global__ void bank_conflicts(float const* x, float* out, int n) {
  __shared__ float tile[32][32];
  int row = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int k = 0; k < 64; k++) {
    tile[lane][row] = x[(blockIdx.x * 1024 + threadIdx.x + k * 1024) % n];
    __syncthreads();
    sum += tile[lane][(row + k) % 32];
    __syncthreads();
  }
  out[blockIdx.x * 1024 + threadIdx.x] = sum;
}

__global__ void strided_copy(float const* x, float* out, int n) {
  long i = long(blockIdx.x) * blockDim.x + threadIdx.x;
  int width = 1 << 12;
  long row = i % (n / width), column = i / (n / width);
  out[row * width + column] = x[row * width + column] * 2.0f;
}

template <int BLOCK>
__global__ void vector_copy(float const* x, float* out, int n) {
  long i = long(blockIdx.x) * BLOCK + threadIdx.x;
  if (i < n / 4) {
    float4 v = reinterpret_cast<float4 const*>(x)[i];
    v.x = tanhf(v.x); v.y = tanhf(v.y); v.z = tanhf(v.z); v.w = tanhf(v.w);
    reinterpret_cast<float4*>(out)[i] = v;
  }
}
