/* cutegen
idea = "ReLU with WORK multiply-adds an element that change nothing: a known difference in arithmetic"

[let]
n = "x.numel"

[params]
WORK = { default = 200, values = [200, 206] }

[[launch]]
kernel = "relu_work<WORK>"
grid   = ["ceil_div(n, 1024)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
template <int WORK>
__global__ __launch_bounds__(256) void relu_work(float const* x, float* out, long n) {
  long i = (long(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (i + 3 >= n) return;
  float4 v = *reinterpret_cast<float4 const*>(x + i);
  float a = v.x, b = v.y, c = v.z, d = v.w;
  for (int k = 0; k < WORK; ++k) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a) : "f"(1.0f), "f"(0.0f));
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(b) : "f"(1.0f), "f"(0.0f));
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(c) : "f"(1.0f), "f"(0.0f));
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(d) : "f"(1.0f), "f"(0.0f));
  }
  v.x = a < 0.0f ? 0.0f : a, v.y = b < 0.0f ? 0.0f : b, v.z = c < 0.0f ? 0.0f : c, v.w = d < 0.0f ? 0.0f : d;
  *reinterpret_cast<float4*>(out + i) = v;
}
