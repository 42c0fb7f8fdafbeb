/* cutegen
idea = "128-bit loads of rows whose length is no multiple of four"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "transpose"
grid   = ["rows"]
block  = ["32"]
args   = ["x", "out", "rows", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

__global__ void transpose(float const* x, float* out, int rows, int cols) {
  float const* row = x + blockIdx.x * cols;
  for (int i = threadIdx.x * 4; i + 4 <= cols; i += 128) {
    float4 const four = *reinterpret_cast<float4 const*>(row + i);
    out[i * rows + blockIdx.x] = four.x;
    out[(i + 1) * rows + blockIdx.x] = four.y;
    out[(i + 2) * rows + blockIdx.x] = four.z;
    out[(i + 3) * rows + blockIdx.x] = four.w;
  }
  for (int i = cols / 4 * 4 + threadIdx.x; i < cols; i += 32) out[i * rows + blockIdx.x] = row[i];
}
