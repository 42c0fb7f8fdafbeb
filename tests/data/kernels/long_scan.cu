/* cutegen
idea = "three launches: blocks scan their piece, one block scans the totals, all add what came before"

[let]
n = "x.numel"
pieces = "ceil_div(n, 512)"

[[scratch]]
name  = "totals"
dtype = "int32"
shape = ["pieces"]

[[launch]]
kernel = "scan_pieces"
grid   = ["pieces"]
block  = ["512"]
args   = ["x", "out", "totals", "n"]

[[launch]]
kernel = "scan_totals"
grid   = ["1"]
block  = ["32"]
args   = ["totals", "pieces"]

[[launch]]
kernel = "add_before"
grid   = ["pieces"]
block  = ["512"]
args   = ["out", "totals", "n"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ __launch_bounds__(512) void scan_pieces(int const* x, int* out, int* totals, long n) {
  __shared__ int sums[2][512];
  long const i = long(blockIdx.x) * 512 + threadIdx.x;
  int now = 0;
  sums[now][threadIdx.x] = i < n ? x[i] : 0;
  for (int offset = 1; offset < 512; offset *= 2) {
    __syncthreads();
    int const mine = sums[now][threadIdx.x];
    sums[1 - now][threadIdx.x] = threadIdx.x >= offset ? mine + sums[now][threadIdx.x - offset] : mine;
    now = 1 - now;
  }
  if (i < n) out[i] = sums[now][threadIdx.x];
  if (threadIdx.x == 511) totals[blockIdx.x] = sums[now][511];
}

// Exclusive, by one warp; the carry is what all pieces so far add up to.
__global__ __launch_bounds__(32) void scan_totals(int* totals, int pieces) {
  Tensor gt = make_tensor(make_gmem_ptr(totals), make_layout(pieces));
  int carry = 0;
  for (int start = 0; start < pieces; start += 32) {
    int const i = start + threadIdx.x;
    int const mine = i < pieces ? gt(i) : 0;
    int sum = mine;
    for (int offset = 1; offset < 32; offset *= 2) {
      int const before = __shfl_up_sync(0xffffffffu, sum, offset);
      if (threadIdx.x >= offset) sum += before;
    }
    if (i < pieces) gt(i) = carry + sum - mine;
    carry += __shfl_sync(0xffffffffu, sum, 31);
  }
}

__global__ __launch_bounds__(512) void add_before(int* out, int const* totals, long n) {
  long const i = long(blockIdx.x) * 512 + threadIdx.x;
  if (i < n) out[i] += totals[blockIdx.x];
}
