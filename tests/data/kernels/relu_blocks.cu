/* cutegen
idea = "ReLU of which EXTRA per mille of the blocks are done twice: a known difference in bytes"

[let]
n = "x.numel"
blocks = "ceil_div(n, 4096)"

[params]
EXTRA = { default = 0, values = [0, 30] }

[[launch]]
kernel = "relu_blocks"
grid   = ["blocks + blocks * EXTRA // 1000"]
block  = ["256"]
args   = ["x", "out", "n", "blocks"]
*/
__global__ __launch_bounds__(256) void relu_blocks(float const* x, float* out, long n, long blocks) {
  long first = (long(blockIdx.x) % blocks) * 4096 + threadIdx.x * 4;
  for (int item = 0; item < 4; ++item) {
    long i = first + item * 1024;
    if (i + 3 >= n) break;
    float4 v = *reinterpret_cast<float4 const*>(x + i);
    v.x = v.x < 0.0f ? 0.0f : v.x, v.y = v.y < 0.0f ? 0.0f : v.y, v.z = v.z < 0.0f ? 0.0f : v.z, v.w = v.w < 0.0f ? 0.0f : v.w;
    *reinterpret_cast<float4*>(out + i) = v;
  }
}
