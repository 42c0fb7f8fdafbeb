/* cutegen
idea = "one thread per element"

[let]
n = "x.numel"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }

[[launch]]
kernel = "scale<BLOCK>"
grid   = ["ceil_div(n, BLOCK)"]
block  = ["BLOCK"]
args   = ["x", "out", "n"]
*/
template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void scale(float const* x, float* out, long n) {
  long i = long(blockIdx.x) * BLOCK + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}
