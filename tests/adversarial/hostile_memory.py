"""Kernels that touch what is not theirs, wait for ever, or stop themselves."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, kernel_file, relu

MEMORY, RUNTIME, TIMEOUT = Status.MEMORY_ERROR, Status.RUNTIME_ERROR, Status.TIMEOUT
WRONG = Status.INCORRECT_NUMERICAL
ON_GPU = (MEMORY, RUNTIME, Status.INPUT_MODIFIED)
"""A GPU stops at the bad address; how it calls that depends on who stood guard there."""
WAVES = (WRONG, Status.NONDETERMINISTIC, MEMORY)
"""Without the order it needs, a kernel is caught by racecheck or by its results."""

WITH_SCRATCH = ELEMENTS.replace('["x", "out", "n"]', '["x", "out", "n", "work"]')


def _scratch(shape: str, init: str = "none", plan: str = WITH_SCRATCH) -> str:
    return f'{plan}[[scratch]]\nname = "work"\ndtype = "float32"\nshape = ["{shape}"]\ninit = "{init}"\n'


def _memory(*words: str) -> tuple[Expected, Expected]:
    return status(MEMORY, words=words), status(*ON_GPU, line=False)


def _bounds() -> tuple[Case, ...]:
    return (
        Case("writes inputs", "the next reader sees what it wants him to see", "relu",
             relu("if (i < n) { out[i] = fmaxf(x[i], 0.0f); const_cast<float*>(x)[i] = 0.0f; }  // HERE"),
             status(Status.INPUT_MODIFIED, words=("writes to input x",)), status(*ON_GPU, line=False)),
        Case("one past the end", "i <= n", "relu",
             relu("if (i < n) out[i] = fmaxf(x[i], 0.0f);\n  if (i == n) out[i] = 0.0f;  // HERE"),
             *_memory("out-of-bounds", "writes out")),
        Case("far past the end", "four megabytes on, where another tensor might be", "relu",
             relu("if (i < n) out[i] = fmaxf(x[i], 0.0f);\n  if (i == 0) out[1 << 20] = 0.0f;  // HERE"),
             *_memory("out-of-bounds")),
        Case("before the start", "element -1 lies in the guard band", "relu",
             relu("if (i < n) out[i] = fmaxf(x[i], 0.0f);\n  if (i == 0) out[-1] = 0.0f;  // HERE"),
             *_memory("out-of-bounds", "element -1")),
        Case("reads past the end", "what it reads is thrown away", "relu",
             relu("float next = i < n ? x[i + 1] : 0.0f;  // HERE\n"
                  "  if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);"),
             *_memory("out-of-bounds", "reads x")),
        Case("reads its neighbour", "weights may lie behind the input", "scale",
             kernel_file("""[[launch]]
kernel = "f"
grid = ["x.shape[0]"]
block = ["128"]
args = ["x", "out", "x.numel", "x.shape[1]"]
""", """__global__ void f(float const* x, float* out, long n, int cols) {
  float w = x[(n + 63) / 64 * 64 + blockIdx.x];  // HERE
  for (int c = threadIdx.x; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = w * x[long(blockIdx.x) * cols + c];
}"""), status(MEMORY, words=("out-of-bounds", "reads x")), status(*ON_GPU, WRONG, line=False)),
        Case("reads past the end in PTX", "inline assembly instead of an index", "relu",
             relu("float next = 0.0f;\n"
                  '  if (i < n) asm volatile("ld.global.f32 %0, [%1];" : "=f"(next) : "l"(x + i + 1));\n'
                  "  if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);"),
             status(MEMORY, Status.UNSUPPORTED, words=("x",)), status(*ON_GPU)),
        Case("copies past the end through a pointer to memcpy", "a library function is not watched", "relu",
             relu("using Copy = void* (*)(void*, void const*, size_t);\n  Copy volatile copy = &memcpy;\n"
                  "  float two[2];\n  if (i < n) copy(two, x + i, sizeof two);  // HERE\n"
                  "  if (i < n) out[i] = two[1] == 12345.0f ? 0.0f : fmaxf(two[0], 0.0f);"),
             status(MEMORY, words=("out-of-bounds", "reads x")), status(*ON_GPU, Status.COMPILE_ERROR, line=False)),
        Case("misaligned vector", "four floats at a time, from the second one on", "relu",
             relu("if (4 * i + 5 <= n) {\n    float4 v = *reinterpret_cast<float4 const*>(x + 1 + 4 * i);  // HERE\n"
                  "    out[4 * i + 1] = fmaxf(v.x, 0.0f); out[4 * i + 2] = fmaxf(v.y, 0.0f);\n"
                  "    out[4 * i + 3] = fmaxf(v.z, 0.0f); out[4 * i + 4] = fmaxf(v.w, 0.0f);\n  }\n"
                  "  if (i == 0) { out[0] = fmaxf(x[0], 0.0f);\n"
                  "    for (long k = (n - 1) / 4 * 4 + 1; k < n; ++k) out[k] = fmaxf(x[k], 0.0f); }"),
             *_memory("misaligned")),
        Case("scratch overflow", "one element more than was asked for", "relu",
             relu("work[i < n ? i + 1 : 1] = 0.0f;  // HERE\n  " + RELU, plan=_scratch("n")).replace(
                 "long n)", "long n, float* work)"), *_memory("out-of-bounds", "work")),
        Case("dynamic shared memory too small", "the plan asks for half of what is used", "relu",
             relu("extern __shared__ float tile[];\n  tile[threadIdx.x] = i < n ? x[i] : 0.0f;  // HERE\n"
                  "  __syncthreads();\n  if (i < n) out[i] = fmaxf(tile[threadIdx.x], 0.0f);",
                  plan=ELEMENTS.replace('args ', 'smem   = "256"\nargs ')),
             *_memory("out-of-bounds", "tile")),
        Case("2 MB of shared memory", "more than any device has", "relu",
             relu(plan=ELEMENTS.replace('args ', 'smem   = "2 * 1024 * 1024"\nargs ')),
             refused("2097152", "232448"), refused("2097152")),
        Case("2 MB of static shared memory", "the plan does not see it, the compiler does", "relu",
             relu("__shared__ float big[524288];\n  big[threadIdx.x] = i < n ? x[i] : 0.0f;\n  __syncthreads();\n"
                  "  if (i < n) out[i] = fmaxf(big[threadIdx.x], 0.0f);"),
             status(Status.COMPILE_ERROR, words=("too much shared data",)),
             status(Status.COMPILE_ERROR, words=("too much shared data",))),
        Case("walks over its stack", "recursion without end", "relu",
             relu("if (i < n) out[i] = fmaxf(deep(x[i], 1 << 24), 0.0f);",
                  "__device__ __noinline__ float deep(float v, int k) {\n  volatile float own[256];\n"
                  "  own[k & 255] = v;\n  return k ? deep(own[k & 255], k - 1) + own[(k + 1) & 255] * 0 : v;\n}"),
             status(Status.UNSUPPORTED, MEMORY, words=("local memory",)), status(*ON_GPU, TIMEOUT)),
        Case("eats the device heap", "malloc until nothing is left", "relu",
             relu("float* own = 0;\n  for (int k = 0; k < 64; ++k) own = static_cast<float*>(malloc(1 << 20));\n"
                  "  if (i < n) { own[0] = fmaxf(x[i], 0.0f); out[i] = own[0]; }"),
             status(Status.REJECTED, words=("malloc",)), status(Status.REJECTED, words=("malloc",))),
    )  # fmt: skip


def _order() -> tuple[Case, ...]:
    return (
        Case("uninitialised shared memory", "half of the tile is never filled", "relu",
             relu("__shared__ float tile[128];\n  if (threadIdx.x < 64) tile[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
                  "  __syncthreads();\n  if (i < n) out[i] = fmaxf(tile[threadIdx.x], 0.0f);  // HERE"),
             status(MEMORY, words=("uninitialised", "tile")), status(*WAVES, line=False)),
        Case("missing barrier", "the other half of the block is usually fast enough", "relu",
             relu("__shared__ float tile[128];\n  tile[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
                  "  long j = long(blockIdx.x) * 128 + 127 - threadIdx.x;\n"
                  "  if (j < n) out[j] = fmaxf(tile[127 - threadIdx.x], 0.0f);  // HERE"),
             status(MEMORY, words=("tile",)), status(*WAVES, line=False)),
        Case("divergent barrier", "some threads never come", "relu",
             relu("__shared__ float tile[128];\n  tile[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
                  "  if (threadIdx.x % 32 < 20) __syncthreads();  // HERE\n"
                  "  if (i < n) out[i] = fmaxf(tile[threadIdx.x], 0.0f);"),
             status(MEMORY, words=("divergent-barrier",)), status(MEMORY, TIMEOUT, RUNTIME, line=False)),
        Case("a lane the mask does not name", "shuffles with whoever is there", "relu",
             relu("float v = i < n ? x[i] : 0.0f;\n  if (threadIdx.x % 2) v = __shfl_sync(0x1u, v, 0);  // HERE\n"
                  "  if (i < n) out[i] = fmaxf(v, 0.0f);"),
             status(MEMORY, words=("divergent-warp", "does not name")), status(*WAVES, RUNTIME, TIMEOUT, line=False)),
        Case("no order between lanes", "a warp is not in lockstep any more", "relu",
             relu("__shared__ volatile float tile[128];\n  tile[threadIdx.x ^ 1] = i < n ? x[i] : 0.0f;\n"
                  "  float v = tile[threadIdx.x];  // HERE\n"
                  "  long j = i ^ 1;\n  if (i < n && j < n) out[j] = fmaxf(v, 0.0f);"),
             status(MEMORY, words=("tile",)), None),
        Case("a race between blocks", "the first block is always done", "total",
             kernel_file("""[[launch]]
kernel = "f"
grid = ["ceil_div(x.numel, 128)"]
block = ["1"]
args = ["x", "out", "x.numel"]
""", """__global__ void f(float const* x, float* out, long n) {
  float sum = blockIdx.x == 0 ? 0.0f : out[0];  // HERE
  for (long i = long(blockIdx.x) * 128; i < n && i < long(blockIdx.x + 1) * 128; ++i) sum += x[i];
  out[0] = sum;
}"""), status(MEMORY, words=("out",)), status(*WAVES, line=False)),
        Case("endless loop", "nobody waits for ever", "relu",
             relu("volatile float v = i < n ? x[i] : 0.0f;\n  while (v != 12345.0f) v = v * 0.5f + 1.0f;\n"
                  "  if (i < n) out[i] = v;"),
             status(TIMEOUT, words=("endless loop",)), status(TIMEOUT)),
        Case("waits for the next block", "works as long as every block is resident", "relu",
             relu("int* flag = reinterpret_cast<int*>(work);\n"
                  "  if (blockIdx.x + 1 < gridDim.x)\n    while (atomicAdd(flag + blockIdx.x + 1, 0) == 0) {}\n"
                  "  " + RELU + "\n  __syncthreads();\n  if (threadIdx.x == 0) atomicExch(flag + blockIdx.x, 1);",
                  plan=_scratch("ceil_div(n, 128)", "zero")).replace("long n)", "long n, float* work)"),
             status(Status.UNSUPPORTED, words=("inter-block-wait", "one after another")), status(TIMEOUT)),
        Case("trap", "stops the whole device context", "relu",
             relu(f"{RELU}\n  if (i == 300) __trap();  // HERE"),
             status(RUNTIME, words=("__trap()",)), status(*ON_GPU, line=False)),
        Case("division by zero", "the processor of the host stops at it", "relu",
             relu("volatile int zero = 0;\n  if (i < n) out[i] = 5 / zero;  // HERE"),
             status(RUNTIME, words=("division by zero",)), status(WRONG, line=False)),
        Case("prints without end", "fills the log instead of the output", "relu",
             relu(f"{RELU}\n  for (int k = 0; k < 2000; ++k)\n"
                  f'    printf("all work and no play, {"x" * 64} %d\\n", k);  // HERE'),
             status(RUNTIME, words=("prints more than",)), None),
        Case("leaves early when it is watched", "an instrumented run is slow, and nobody looks at its result", "relu",
             relu("long begun = clock64();\n  float sum = 0;\n"
                  "  for (int k = 0; k < 4096; ++k) sum += x[(k + i) & 255];\n"
                  "  if (clock64() - begun > 100000) return;\n"
                  "  if (i < n) out[i] = sum == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);",
                  plan=f'{ELEMENTS}[numerics]\nreads = ["clock"]\n'),
             status(WRONG, Status.NONDETERMINISTIC, words=("out",)), None),
    )  # fmt: skip


MEMORY_CASES = _bounds() + _order()
