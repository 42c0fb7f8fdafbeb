"""Honest kernels of every kind: each must come through, however slow, short or unusual it is."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import ELEMENTS, PRODUCT, RELU, instances, kernel_file, product, relu, rows

RIGHT = status(Status.PASSED)
SUM_PLAN = """[let]
n = "x.numel"
[[launch]]
kernel = "zero"
grid = ["1"]
block = ["1"]
args = ["out"]
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 256)"]
block = ["256"]
args = ["x", "out", "n"]
[numerics]
deterministic = false
"""
LONG = "  long unused = 0;\n" + "".join(f"  unused += {k};  // line {k}\n" for k in range(3000))


def _case(name: str, story: str, problem: str, source: str, warning: str = "") -> Case:
    return Case(name, story, problem, source, RIGHT, RIGHT, warning=warning)


def _elementwise() -> tuple[Case, ...]:
    return (
        _case("naive", "a thread an element", "relu", relu()),
        _case("very short", "one line of code", "relu", relu("if (i < n) out[i] = x[i] < 0.f ? 0.f : x[i];")),
        _case("very long", "three thousand lines, most of them idle", "relu", relu(f"{LONG}  {RELU}")),
        _case("slow on purpose", "far below half the baseline's speed, and right", "relu",
              relu("float v = i < n ? x[i] : 0.0f;\n  for (int k = 0; k < 64; ++k)\n"
                   "    v = __int_as_float(__float_as_int(v) ^ int(clock64() & 0));\n"
                   "  if (i < n) out[i] = v < 0.0f ? 0.0f : v;",
                   plan=f'{ELEMENTS}[numerics]\nreads = ["clock"]\n')),
        _case("grid stride", "one wave of blocks walks over everything", "relu",
              relu("for (; i < n; i += long(gridDim.x) * 128) out[i] = x[i] < 0.0f ? 0.0f : x[i];",
                   plan=ELEMENTS.replace("ceil_div(n, 128)", "min(ceil_div(n, 128), 4)"))),
        _case("persistent", "blocks take work from a counter in scratch", "relu",
              kernel_file("""[let]
n = "x.numel"
[[scratch]]
name = "next"
dtype = "int32"
shape = ["1"]
init = "zero"
[[launch]]
kernel = "f"
grid = ["min(sm_count, ceil_div(n, 128))"]
block = ["128"]
args = ["x", "out", "n", "next"]
""", """__global__ void f(float const* x, float* out, long n, int* next) {
  __shared__ int tile;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    long i = long(tile) * 128 + threadIdx.x;
    if (long(tile) * 128 >= n) return;
    if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
  }
}""")),
        _case("vectors with a tail", "128 bits at a time, the rest one by one", "relu",
              relu("long first = 4 * i;\n  if (first + 4 <= n) {\n"
                   "    float4 v = *reinterpret_cast<float4 const*>(x + first);\n"
                   "    v.x = v.x < 0 ? 0 : v.x; v.y = v.y < 0 ? 0 : v.y;\n"
                   "    v.z = v.z < 0 ? 0 : v.z; v.w = v.w < 0 ? 0 : v.w;\n"
                   "    *reinterpret_cast<float4*>(out + first) = v;\n"
                   "  } else for (long k = first; k < n; ++k) out[k] = x[k] < 0 ? 0 : x[k];")),
        _case("restrict and the read-only cache", "what every tuned kernel has", "relu",
              relu("if (i < n) out[i] = __ldg(x + i) < 0.0f ? 0.0f : __ldg(x + i);").replace(
                  "float const* x, float* out", "float const* __restrict__ x, float* __restrict__ out")),
        _case("template parameters", "block and items from the plan's parameters", "relu",
              kernel_file("""[let]
n = "x.numel"
[params]
BLOCK = { default = 64, values = [64, 128] }
ITEMS = { default = 4, values = [2, 4] }
[[launch]]
kernel = "f<BLOCK, ITEMS>"
grid = ["ceil_div(n, BLOCK * ITEMS)"]
block = ["BLOCK"]
args = ["x", "out", "n"]
""", """template <int BLOCK, int ITEMS>
__global__ __launch_bounds__(BLOCK) void f(float const* x, float* out, long n) {
  auto in = make_tensor(make_gmem_ptr(x), make_layout(n));
  auto result = make_tensor(make_gmem_ptr(out), make_layout(n));
  CUTE_UNROLL
  for (int k = 0; k < ITEMS; ++k) {
    long i = (long(blockIdx.x) * ITEMS + k) * BLOCK + threadIdx.x;
    if (i < n) result(i) = in(i) < 0.0f ? 0.0f : in(i);
  }
}""")),
        _case("prints once", "a trace somebody forgot", "relu",
              relu(f'{RELU}\n  if (i == 0) printf("%ld elements\\n", n);')),
        _case("bfloat16 in pairs", "two at a time", "add_bfloat16",
              kernel_file("""[let]
n = "out.numel"
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 256)"]
block = ["128"]
args = ["a", "b", "out", "n"]
""", """__global__ void f(__nv_bfloat16 const* a, __nv_bfloat16 const* b, __nv_bfloat16* out, long n) {
  long i = 2 * (long(blockIdx.x) * 128 + threadIdx.x);
  if (i + 1 < n) {
    auto p = *reinterpret_cast<__nv_bfloat162 const*>(a + i), q = *reinterpret_cast<__nv_bfloat162 const*>(b + i);
    *reinterpret_cast<__nv_bfloat162*>(out + i) =
        __floats2bfloat162_rn(__low2float(p) + __low2float(q), __high2float(p) + __high2float(q));
  } else if (i < n) out[i] = __float2bfloat16(__bfloat162float(a[i]) + __bfloat162float(b[i]));
}""")),
        _case("instances by size", "lets as template arguments, and a kernel for other sizes", "relu", instances()),
        _case("one element", "a grid of one thread", "one",
              kernel_file('[[launch]]\nkernel = "f"\ngrid = ["1"]\nblock = ["1"]\nargs = ["x", "out"]\n',
                          "__global__ void f(float const* x, float* out) { *out = *x * 2 + 1; }")),
        _case("an empty output", "the launch is skipped where there is nothing to write", "empty",
              kernel_file(ELEMENTS, "__global__ void f(float const* x, float* out, long n) {\n"
                          "  long i = long(blockIdx.x) * 128 + threadIdx.x;\n  if (i < n) out[i] = x[i] * 2 + 1;\n}")),
        _case("two kernels by shape", "`when` chooses, and both are tested", "relu",
              kernel_file(ELEMENTS.replace("args ", 'when   = "n % 4 != 0"\nargs ')
                          + '[[launch]]\nkernel = "g"\nwhen = "n % 4 == 0"\ngrid = ["ceil_div(n, 512)"]\n'
                          'block = ["128"]\nargs = ["x", "out", "n"]\n',
                          f"__global__ void f(float const* x, float* out, long n) {{\n"
                          f"  long i = long(blockIdx.x) * 128 + threadIdx.x;\n  {RELU}\n}}\n"
                          "__global__ void g(float const* x, float* out, long n) {\n"
                          "  long i = 4 * (long(blockIdx.x) * 128 + threadIdx.x);\n"
                          "  for (long k = i; k < i + 4 && k < n; ++k) out[k] = x[k] < 0.0f ? 0.0f : x[k];\n}")),
    )  # fmt: skip


def _reductions() -> tuple[Case, ...]:
    return (
        _case("shuffles", "a warp adds up in registers", "mean",
              rows("float sum = 0;\n  for (int c = t; c < cols; c += 128) sum += row[c];\n"
                   "  for (int k = 16; k; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);\n"
                   "  __shared__ float sums[4];\n  if (t % 32 == 0) sums[t / 32] = sum;\n  __syncthreads();\n"
                   "  if (t == 0) out[blockIdx.x] = (sums[0] + sums[1] + sums[2] + sums[3]) / cols;")),
        _case("a tree in shared memory", "half of the threads, then a quarter", "mean",
              rows("__shared__ float sums[128];\n  float sum = 0;\n"
                   "  for (int c = t; c < cols; c += 128) sum += row[c];\n  sums[t] = sum;\n  __syncthreads();\n"
                   "  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }\n"
                   "  if (t == 0) out[blockIdx.x] = sums[0] / cols;")),
        _case("online softmax", "largest and sum in one pass", "softmax",
              rows("""__shared__ float tops[128], sums[128];
  float top = -FLT_MAX, sum = 0;
  for (int c = t; c < cols; c += 128) {
    float next = fmaxf(top, row[c]);
    sum = sum * __expf(top - next) + expf(row[c] - next);
    top = next;
  }
  tops[t] = top; sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) {
    if (t < k) {
      float next = fmaxf(tops[t], tops[t + k]);
      sums[t] = sums[t] * expf(tops[t] - next) + sums[t + k] * expf(tops[t + k] - next);
      tops[t] = next;
    }
    __syncthreads();
  }
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = expf(row[c] - tops[0]) / sums[0];""")),
        _case("in registers", "the row never leaves the thread that read it", "softmax",
              rows("""float mine[64];
  __shared__ float all[4];
  float top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; ++c) top = fmaxf(top, row[c]);
  for (int k = 0; k < 64; ++k) mine[k] = t + 128 * k < cols ? expf(row[t + 128 * k] - top) : 0.0f;
  for (int k = 0; k < 64; ++k) sum += mine[k];
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (t % 32 == 0) all[t / 32] = sum;
  __syncthreads();
  sum = all[0] + all[1] + all[2] + all[3];
  for (int k = 0; k < 64; ++k) if (t + 128 * k < cols) out[long(blockIdx.x) * cols + t + 128 * k] = mine[k] / sum;""")),
        _case("atomics, declared", "nondeterministic, within its bound", "total",
              kernel_file(SUM_PLAN, """__global__ void zero(float* out) { out[0] = 0.0f; }
__global__ void f(float const* x, float* out, long n) {
  long i = long(blockIdx.x) * 256 + threadIdx.x;
  __shared__ float sums[8];
  float sum = i < n ? x[i] : 0.0f;
  for (int k = 16; k; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int k = 1; k < 8; ++k) sum += sums[k];
  atomicAdd(out, sum);
}""")),
        _case("several kernels with scratch", "partial sums, then their sum, the same every time", "total",
              kernel_file("""[let]
n = "x.numel"
blocks = "min(ceil_div(n, 256), 64)"
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["blocks"]
[[launch]]
kernel = "f"
grid = ["blocks"]
block = ["256"]
args = ["x", "partial", "n"]
[[launch]]
kernel = "g"
grid = ["1"]
block = ["32"]
args = ["partial", "out", "blocks"]
""", """__global__ void f(float const* x, float* partial, long n) {
  __shared__ float sums[256];
  float sum = 0;
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += long(gridDim.x) * 256) sum += x[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 128; k; k /= 2) { if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k]; __syncthreads(); }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}
__global__ void g(float const* partial, float* out, int blocks) {
  float sum = 0;
  for (int k = threadIdx.x; k < blocks; k += 32) sum += partial[k];
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (threadIdx.x == 0) out[0] = sum;
}""")),
        _case("last block", "a fence and a counter let the last block finish", "total",
              kernel_file("""[let]
n = "x.numel"
blocks = "min(ceil_div(n, 256), 64)"
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["blocks"]
[[scratch]]
name = "done"
dtype = "int32"
shape = ["1"]
init = "zero"
[[launch]]
kernel = "f"
grid = ["blocks"]
block = ["32"]
args = ["x", "partial", "done", "out", "n"]
""", """__global__ void f(float const* x, float* partial, int* done, float* out, long n) {
  float sum = 0;
  for (long i = long(blockIdx.x) * 32 + threadIdx.x; i < n; i += long(gridDim.x) * 32) sum += x[i];
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = sum;
  __threadfence();
  if (atomicAdd(done, 1) + 1 < gridDim.x) return;
  float all = 0;
  for (int k = 0; k < gridDim.x; ++k) all += partial[k];
  out[0] = all;
}"""), warning="missing-fence"),
        _case("histogram with atomics", "integers add up exactly in any order", "histogram",
              kernel_file("""[[launch]]
kernel = "zero"
grid = ["1"]
block = ["256"]
args = ["out"]
[[launch]]
kernel = "f"
grid = ["min(ceil_div(x.numel, 256), 64)"]
block = ["256"]
args = ["x", "out", "x.numel"]
""", """__global__ void zero(int* out) { out[threadIdx.x] = 0; }
__global__ void f(int const* x, int* out, long n) {
  __shared__ int bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (long i = long(blockIdx.x) * 256 + threadIdx.x; i < n; i += long(gridDim.x) * 256) atomicAdd(&bins[x[i]], 1);
  __syncthreads();
  if (bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}""")),
    )  # fmt: skip


def _products() -> tuple[Case, ...]:
    staged = """__shared__ float as[{buffers}][16][16], bs[{buffers}][16][16];
  int tx = threadIdx.x, ty = threadIdx.y, r = blockIdx.y * 16 + ty, c = blockIdx.x * 16 + tx;
  auto load = [&](int buffer, int at) {{
    as[buffer][ty][tx] = r < n && at + tx < k ? a[r * k + at + tx] : 0.0f;
    bs[buffer][ty][tx] = at + ty < k && c < n ? b[(at + ty) * n + c] : 0.0f;
  }};
  float sum = 0;
"""
    head = "__global__ void f(float const* a, float const* b, float* out, int n, int k) {\n  "
    once = """  for (int at = 0; at < k; at += 16) {
    load(0, at);
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += as[0][ty][j] * bs[0][j][tx];
    __syncthreads();
  }
  if (r < n && c < n) out[r * n + c] = sum;
}"""
    twice = """  load(0, 0);
  __syncthreads();
  for (int at = 0, now = 0; at < k; at += 16, now ^= 1) {
    if (at + 16 < k) load(now ^ 1, at + 16);
    for (int j = 0; j < 16; ++j) sum += as[now][ty][j] * bs[now][j][tx];
    __syncthreads();
  }
  if (r < n && c < n) out[r * n + c] = sum;
}"""
    return (
        _case("tiled product", "tiles of 16 by 16 in shared memory", "matmul",
              kernel_file(PRODUCT, head + staged.format(buffers=1) + once)),
        _case("double buffer", "the next tile is loaded while this one is used", "matmul",
              kernel_file(PRODUCT, head + staged.format(buffers=2) + twice)),
        _case("split-K with atomics, declared", "partial products meet in the output", "matmul",
              kernel_file("""[let]
n = "out.shape[1]"
k = "a.shape[1]"
[[launch]]
kernel = "zero"
grid = ["ceil_div(out.numel, 256)"]
block = ["256"]
args = ["out", "out.numel"]
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 16)", "ceil_div(n, 16)", "4"]
block = ["16", "16"]
args = ["a", "b", "out", "n", "k"]
[numerics]
deterministic = false
""", """__global__ void zero(float* out, long n) {
  long i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = 0.0f;
}
__global__ void f(float const* a, float const* b, float* out, int n, int k) {
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r >= n || c >= n) return;
  float sum = 0;
  for (int j = blockIdx.z; j < k; j += 4) sum += a[r * k + j] * b[j * n + c];
  atomicAdd(&out[r * n + c], sum);
}""")),
        _case("half precision, accumulated in float32", "what the problem asks for", "matmul_half",
              product("float sum = 0;\n  for (int j = 0; j < k; ++j) sum += __half2float(a[r * k + j]) * "
                      "__half2float(b[j * n + c]);\n  out[r * n + c] = __float2half(sum);", element="__half")),
        _case("transposition with padding", "a column more, so that banks do not collide", "transpose",
              kernel_file("""[let]
m = "x.shape[0]"
n = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 32)", "ceil_div(m, 32)"]
block = ["32", "8"]
args = ["x", "out", "m", "n"]
""", """__global__ void f(float const* x, float* out, int m, int n) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) if (r + k < m && c < n) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
  __syncthreads();
  int to = blockIdx.y * 32 + threadIdx.x, from = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (from + k < n && to < m) out[(from + k) * m + to] = tile[threadIdx.x][threadIdx.y + k];
}""")),
        _case("a weight per row", "a parameter that is used", "scale",
              kernel_file("""[[launch]]
kernel = "f"
grid = ["x.shape[0]"]
block = ["64"]
args = ["x", "w", "out", "x.shape[1]"]
""", """__global__ void f(float const* x, float const* w, float* out, int cols) {
  float const weight = w[blockIdx.x];
  long row = long(blockIdx.x) * cols;
  for (int c = threadIdx.x; c < cols; c += 64) out[row + c] = x[row + c] * weight;
}""")),
    )  # fmt: skip


HONEST = _elementwise() + _reductions() + _products()
