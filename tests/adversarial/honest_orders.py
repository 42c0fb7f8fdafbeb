"""Honest kernels whose blocks or threads tell one another something, and honest macros: each must come through."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import ELEMENTS, RELU, kernel_file, relu, rows

RIGHT = status(Status.PASSED)
PARTIAL = """[let]
n = "x.numel"
blocks = "min(ceil_div(n, 256), 16)"
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["blocks", "64"]
[[scratch]]
name = "done"
dtype = "int32"
shape = ["2"]
init = "zero"
[[launch]]
kernel = "f"
grid = ["blocks"]
block = ["64"]
args = ["x", "partial", "done", "out", "n"]
[numerics]
deterministic = false
"""
SUM = """  float sum = 0;
  for (long i = long(blockIdx.x) * 64 + threadIdx.x; i < n; i += long(gridDim.x) * 64) sum += x[i];
"""
HEAD = "__global__ void f(float const* x, {} partial, int* done, float* out, long n) {{\n"
ALL = """  if (threadIdx.x == 0) {
    float all = 0;
    for (int k = 0; k < int(gridDim.x) * 64; ++k) all += partial[k];
    out[0] = all;
  }
}"""


def _case(name: str, story: str, problem: str, source: str, warning: str = "") -> Case:
    return Case(name, story, problem, source, RIGHT, RIGHT, warning=warning)


def _total(name: str, story: str, publish: str, look: str, kind: str = "float*", before: str = "") -> Case:
    code = f"{before}{HEAD.format(kind)}  __shared__ bool last;\n{SUM}{publish}{look}{ALL}"
    return _case(name, story, "total", kernel_file(PARTIAL, code))


WRITE = "  partial[blockIdx.x * 64 + threadIdx.x] = sum;\n"
TICKET = (
    "  if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;\n  __syncthreads();\n  if (!last) return;\n"
)


def _last_blocks() -> tuple[Case, ...]:
    return (
        _total("last block, every thread fences", "fence, barrier, ticket, barrier, fence",
               f"{WRITE}  __threadfence();\n  __syncthreads();\n", f"{TICKET}  __threadfence();\n"),
        _total("last block, one thread fences", "a barrier carries the others' writes to its fence",
               f"{WRITE}  __syncthreads();\n  if (threadIdx.x == 0) __threadfence();\n"
               f"", f"{TICKET}  __threadfence();\n"),
        _total("last block, volatile reads", "the partial sums are read past the cache",
               f"{WRITE}  __threadfence();\n  __syncthreads();\n", TICKET, "volatile float*"),
        _total("last block resets its ticket", "so that the next launch begins at zero",
               f"{WRITE}  __threadfence();\n  __syncthreads();\n",
               f"{TICKET}  __threadfence();\n  if (threadIdx.x == 0) done[0] = 0;\n"),
        _total("last block, ticket in a __device__ variable", "put back to zero by the last block",
               f"{WRITE}  __threadfence();\n  __syncthreads();\n",
               TICKET.replace("done", "&tickets") + "  __threadfence();\n  if (threadIdx.x == 0) tickets = 0;\n",
               before="__device__ int tickets;\n"),
        _total("last block, atomics with an order in PTX", "atom.acq_rel instead of fences",
               f"{WRITE}  __syncthreads();\n",
               "  if (threadIdx.x == 0) {\n    int old;\n"
               '    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"\n'
               '      : "=r"(old) : "l"(done), "r"(1) : "memory");\n'
               "    last = old == gridDim.x - 1;\n  }\n  __syncthreads();\n  if (!last) return;\n"),
        _case("a lock between blocks", "compare and swap, fences on both sides", "total",
              kernel_file(PARTIAL, f"""{HEAD.format("float*")}{SUM}
  partial[blockIdx.x * 64 + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {{
    float all = 0;
    for (int k = 0; k < 64; ++k) all += partial[blockIdx.x * 64 + k];
    while (atomicCAS(done, 0, 1)) {{}}
    __threadfence();
    out[0] = (done[1] ? out[0] : 0.0f) + all;
    done[1] = 1;
    __threadfence();
    atomicExch(done, 0);
  }}
}}""".replace("out[0] = (done[1] ? out[0] : 0.0f) + all;", "if (done[1]) out[0] += all; else out[0] = all;"))),
    )  # fmt: skip


def _within() -> tuple[Case, ...]:
    return (
        _case("bytes of a shared word", "each thread its own byte", "relu",
              relu("__shared__ unsigned char signs[128];\n  signs[threadIdx.x] = i < n && x[i] < 0;\n"
                   "  __syncthreads();\n"
                   "  if (i < n) out[i] = signs[threadIdx.x] ? 0.0f : x[i];")),
        _case("bytes of the output", "each thread its own four", "relu",
              relu("if (i < n) {\n    float v = x[i] < 0.0f ? 0.0f : x[i];\n    unsigned char const* from = "
                   "reinterpret_cast<unsigned char const*>(&v);\n"
                   "    unsigned char* to = reinterpret_cast<unsigned char*>(out + i);\n"
                   "    for (int b = 0; b < 4; ++b) to[b] = from[b];\n  }")),
        _case("a table of constants", "read by every thread of every block", "relu",
              relu("if (i < n) out[i] = x[i] < table[threadIdx.x % 4] ? table[1] : x[i];",
                   "__device__ const float table[4] = {0, 0, 0, 0};\n__constant__ float more[2] = {1, 2};")),
        _case("Kahan's sum", "the compensation must survive contraction", "mean",
              rows("__shared__ float sums[128];\n  float sum = 0, lost = 0;\n"
                   "  for (int c = t; c < cols; c += 128) {\n    float y = row[c] - lost, next = sum + y;\n"
                   "    lost = (next - sum) - y;\n    sum = next;\n  }\n  sums[t] = sum;\n  __syncthreads();\n"
                   "  if (t == 0) { float all = 0; for (int k = 0; k < 128; ++k) all += sums[k]; "
                   "out[blockIdx.x] = all / cols; }")),
        _case("fast exponentials", "softmax with __expf and __fdividef", "softmax",
              rows("__shared__ float parts[128];\n  float top = -INFINITY;\n"
                   "  for (int c = 0; c < cols; ++c) top = fmaxf(top, row[c]);\n  float sum = 0;\n"
                   "  for (int c = t; c < cols; c += 128) sum += __expf(row[c] - top);\n  parts[t] = sum;\n"
                   "  __syncthreads();\n"
                   "  float all = 0;\n  for (int k = 0; k < 128; ++k) all += parts[k];\n"
                   "  for (int c = t; c < cols; c += 128)\n"
                   "    out[long(blockIdx.x) * cols + c] = __fdividef(__expf(row[c] - top), all);")),
    )  # fmt: skip


def _macros() -> tuple[Case, ...]:
    return (
        _case("macros of its own", "constants, functions, conditions on both", "relu",
              relu(f"#if defined(WIDE) && LANES == 32\n  {RELU}\n#endif\n  if (ROUND(i, LANES) < 0) return;",
                   "#define WIDE\n#define LANES 32\n#define ROUND(a, b) (((a) + (b) - 1) / (b) * (b))\n"
                   "#ifndef M_PI\n#define M_PI 3.14159265358979\n#endif\n#ifndef INFINITY\n"
                   "#define INFINITY 1e38f\n#endif")),
        _case("a macro that pastes", "functions by type", "relu",
              relu("if (i < n) out[i] = positive_float(x[i]);",
                   "#define POSITIVE(T) __device__ T positive_##T(T v) { return v < T(0) ? T(0) : v; }\n"
                   "POSITIVE(float)\nPOSITIVE(double)")),
        _case("a condition on the architecture", "newer devices have more", "relu",
              relu(f"#if __CUDA_ARCH__ >= 800\n  {RELU}\n#else\n  if (i < n) out[i] = 0.0f;\n#endif")),
        _case("limits of the language", "FLT_MAX, INT_MAX, INFINITY, CUTE_UNROLL, assert", "relu",
              relu("assert(n < INT_MAX);\n  float v = -FLT_MAX;\n  CUTE_UNROLL\n"
                   "  for (int k = 0; k < 2; ++k) if (i < n) v = x[i] < v ? v : x[i];\n"
                   "  if (i < n) out[i] = v == -INFINITY || v < 0 ? 0.0f : v;")),
        _case("headers of its own choice", "constants and pipelines of CUDA", "relu",
              relu("if (i < n) out[i] = x[i] < CUDART_ZERO_F ? CUDART_ZERO_F : x[i];",
                   "#include <math_constants.h>\n#include <cooperative_groups.h>\n#include <cuda_pipeline.h>\n"
                   "#include <mma.h>",
                   plan=ELEMENTS)),
        _case("names that a host knows", "no macro of any compiler", "relu",
              relu("int stride = 1, index = 0, y0_ = 0, major_ = 1, signal_ = 0;\n"
                   "  int error = 0, time = 0, read = 0, write = 0;\n"
                   "  int BLOCK_SIZE = 128, TILE = 4, WARP_SIZE = 32, EPS = 0, N = 1, M = 1, K = 1;\n"
                   "  if (stride + index + y0_ + major_ + signal_ + error + time + read + write + BLOCK_SIZE + TILE +\n"
                   "      WARP_SIZE + EPS + N + M + K == -1) return;\n  " + RELU)),
    )  # fmt: skip


HONEST_ORDERS = _last_blocks() + _within() + _macros()
