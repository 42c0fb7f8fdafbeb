/* cutegen
idea = "one thread per element, which computes the weights of its row again"

[let]
n    = "out0.numel"
dim  = "out0.shape[2]"

[[launch]]
kernel = "merge_attn_states_lse"
grid   = ["ceil_div(n, 256)"]
block  = [256]
args   = ["out_a", "lse_a", "out_b", "lse_b", "out0", "out1", "n", "dim"]
*/
#include <cuda_fp16.h>

// One thread, one element; the first thread of a head also writes its log-sum-exp.
__global__ __launch_bounds__(256) void merge_attn_states_lse(
    __half const* out_a, float const* lse_a, __half const* out_b, float const* lse_b, __half* out0, float* out1,
    long n, int dim) {
  long const i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  long const head = i / dim;
  float const a = isinf(lse_a[head]) ? -INFINITY : lse_a[head];
  float const b = isinf(lse_b[head]) ? -INFINITY : lse_b[head];
  float const largest = a > b || a != a ? a : b;  // NaN if either is, as in the reference
  float const base = largest == -INFINITY ? 0.0f : largest;
  float const part_a = expf(a - base);
  float const part_b = expf(b - base);
  float const total = part_a + part_b;
  float const divisor = total == 0.0f ? 1.0f : total;
  out0[i] = __float2half(__half2float(out_a[i]) * (part_a / divisor) + __half2float(out_b[i]) * (part_b / divisor));
  if (i % dim == 0) out1[head] = logf(total) + base;
}
