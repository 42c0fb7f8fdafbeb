/* cutegen
idea = "tiles come and go by TMA; the transpose happens in shared memory, swizzled so that no bank is hit twice"

[[tensormap]]
name = "x_map"
tensor = "x"
box = [32, 32]
swizzle = "128B"

[[tensormap]]
name = "out_map"
tensor = "out"
box = [32, 32]
swizzle = "128B"

[[launch]]
kernel = "transpose"
grid   = ["ceil_div(x.shape[1], 32)", "ceil_div(x.shape[0], 32)"]
block  = [256]
args   = ["x_map", "out_map"]
*/
// out[n, m] = x[m, n]^T, float32; both row lengths must be multiples of 4.
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
using namespace cute;

// Element of a 32 x 32 tile as the copy engine lays it down: chunks of 16 bytes change places within 128.
__device__ int place(int row, int column) { return row * 32 + ((column / 4) ^ (row % 8)) * 4 + column % 4; }

__global__ __launch_bounds__(256) void transpose(const __grid_constant__ CUtensorMap x_map,
                                                 const __grid_constant__ CUtensorMap out_map) {
  __shared__ alignas(1024) float in[32 * 32];
  __shared__ alignas(1024) float turned[32 * 32];
  __shared__ alignas(8) uint64_t arrived[1];
  int const column = blockIdx.x * 32, row = blockIdx.y * 32;
  if (threadIdx.x == 0) {
    initialize_barrier(arrived[0], 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    set_barrier_transaction_bytes(arrived[0], sizeof in);
    SM90_TMA_LOAD_2D::copy(&x_map, arrived, static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_FIRST), in, column, row);
  }
  wait_barrier(arrived[0], 0);
  for (int i = threadIdx.x; i < 32 * 32; i += 256) turned[place(i % 32, i / 32)] = in[place(i / 32, i % 32)];
  tma_store_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    SM90_TMA_STORE_2D::copy(&out_map, turned, row, column);
    tma_store_arrive();
    tma_store_wait<0>();
  }
}
