/* cutegen
idea = "every way a kernel can behave, for the tests of the GPU executor; plans are written by the tests"

[[launch]]
kernel = "relu"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "affine"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1", "1", "1", "1"]

[[launch]]
kernel = "partial_sums"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "last_sum"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "grid_sum"
grid = ["1"]
block = ["1"]
args = ["x", "out", "x", "1"]

[[launch]]
kernel = "cluster_ranks"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "big_shared"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "counter"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "copy_scratch"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "at"
grid = ["1"]
block = ["1"]
args = ["out", "1"]

[[launch]]
kernel = "read_at"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "writes_input"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "hang"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "talks"
grid = ["1"]
block = ["1"]
args = ["out", "1"]

[[launch]]
kernel = "misaligned"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "traps"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "asserts"
grid = ["1"]
block = ["1"]
args = ["x", "out", "1"]

[[launch]]
kernel = "recurses"
grid = ["1"]
block = ["1"]
args = ["out", "1"]

[[launch]]
kernel = "bounded"
grid = ["1"]
block = ["1"]
args = ["out"]

[[launch]]
kernel = "allocates"
grid = ["1"]
block = ["1"]
args = ["out"]
*/
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void relu(float const* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}

__global__ void affine(float const* x, float* out, short n, float scale, double shift, bool negate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (negate ? -1.0f : 1.0f) * (scale * x[i] + float(shift));
}

__global__ void partial_sums(float const* x, float* sums, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(sums, x[i]);
}

__global__ void last_sum(float const* sums, float* out, int n) { out[0] = sums[0] / n; }

__global__ void grid_sum(float const* x, float* out, float* sums, int n) {
  auto grid = cg::this_grid();
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int i = blockIdx.x; i < n; i += gridDim.x) sum += x[i];
    sums[blockIdx.x] = sum;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; b++) sum += sums[b];
    out[0] = sum;
  }
}

__global__ void cluster_ranks(int* out) {
  __shared__ int value;
  auto cluster = cg::this_cluster();
  value = 100 * blockIdx.x;
  cluster.sync();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  out[blockIdx.x] = *cluster.map_shared_rank(&value, next);
  cluster.sync();
}

__global__ void big_shared(float const* x, float* out, int n) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile[n - 1 - i];
}

__device__ int calls = 0;
__global__ void counter(int* out) { out[0] = ++calls; }

__global__ void copy_scratch(unsigned char const* scratch, unsigned char* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = scratch[i];
}

__global__ void at(float* out, long i) { out[i] = 1.0f; }
__global__ void read_at(float const* x, float* out, long i) { out[0] = x[i]; }
__global__ void writes_input(float const* x, float* out, int n) {
  const_cast<float*>(x)[n / 2] = 7.0f;
  out[0] = 1.0f;
}
__global__ void hang(float* out) {
  volatile float* o = out;
  while (o[0] != 123.25f) o[1] = 2.0f;
}
__global__ void talks(float* out, int lines) {
  for (int i = 0; i < lines; i++) printf("line %d of a kernel that has a lot to say about nothing at all\n", i);
  out[0] = 1.0f;
}
__global__ void misaligned(float* out) { *reinterpret_cast<float4*>(out + 1) = make_float4(1, 2, 3, 4); }
__global__ void traps(float* out) { __trap(); }
__global__ void asserts(float const* x, float* out, int n) {
  assert(n == 0);
  out[0] = x[0];
}
__device__ __noinline__ float deep(float x, int n) {
  volatile float here[64];
  here[n & 63] = x;
  return n ? deep(x + here[n & 63], n - 1) + here[(n + 1) & 63] : x;
}
__global__ void recurses(float* out, int n) { out[0] = deep(1.0f, n); }
__global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 1.0f; }
__global__ void allocates(float* out) {
  float* mine = static_cast<float*>(malloc(64));
  mine[threadIdx.x % 16] = 3.0f;
  out[0] = mine[threadIdx.x % 16];
  free(mine);
}
