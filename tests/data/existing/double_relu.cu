/* cutegen
idea = "one thread per element"

[let]
n = "x.numel"

[[launch]]
kernel = "double_relu"
grid   = ["ceil_div(n, 128)"]
block  = [128]
args   = ["x", "out", "n"]
*/
__global__ void double_relu(float const* x, float* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i] * 2.0f;
}
