"""Kernels that give a wrong answer and hope nobody looks there, or looks again."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, ROWS, kernel_file, product, relu, rows

WRONG = Status.INCORRECT_NUMERICAL
MEMORY = Status.MEMORY_ERROR
CHANGES = (WRONG, Status.NONDETERMINISTIC)
CHEATS = (WRONG, Status.NONDETERMINISTIC, Status.SUSPECT, MEMORY)

CLOCK = f'{ELEMENTS}[numerics]\nreads = ["clock"]\n'


def _wrong(*words: str) -> tuple[Expected, Expected]:
    """Return the same expected verdict for both executors, with the same words."""
    return status(WRONG, words=words), status(WRONG, words=words)


def _cases() -> tuple[Case, ...]:
    return (
        Case("does nothing", "an empty kernel is the fastest one", "relu",
             relu("if (i == -1) out[0] = x[0];"), *_wrong("untouched: no element was written")),
        Case("constant", "one plausible number everywhere", "relu",
             relu("if (i < n) out[i] = 0.5f;"), *_wrong("every element is 0.5")),
        Case("zeros", "the mean of many normal numbers is nearly zero", "mean",
             rows("if (t == 0) out[blockIdx.x] = 0.0f;"), *_wrong("every element is 0")),
        Case("the mean of the answer", "a softmax row sums to one, so its mean is known", "softmax",
             rows("for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = 1.0f / cols;"),
             *_wrong("every element is")),
        Case("zeros where small", "small values are within somebody's tolerance", "relu",
             relu("if (i < n) out[i] = x[i] > 0.05f ? x[i] : 0.0f;"), *_wrong("elements of out are wrong")),
        Case("skips the tail", "whole blocks only", "relu",
             relu("if (i < n / 128 * 128) out[i] = x[i] > 0.0f ? x[i] : 0.0f;"), *_wrong("wrong", "never written")),
        Case("only the benchmark shape", "the shape of the timing is known", "relu",
             relu("if (n == 4194304) out[i] = x[i] > 0.0f ? x[i] : 0.0f;"), *_wrong("untouched")),
        Case("only small shapes", "tests are small", "relu",
             relu("if (i < n && n < 1000) out[i] = x[i] > 0.0f ? x[i] : 0.0f;"), *_wrong("workload tile")),
        Case("only below the benchmark shape", "the result of a timed run is never looked at", "relu",
             relu("if (i < n && n < 1000000) out[i] = x[i] > 0.0f ? x[i] : 0.0f;"),
             None, status(WRONG, words=("benchmark",))),
        Case("another kernel for the benchmark shape", "`when` sends the tests to an honest kernel", "relu",
             kernel_file(
                 ELEMENTS.replace('args ', 'when   = "n < 1000000"\nargs ')
                 + '[[launch]]\nkernel = "g"\nwhen = "n >= 1000000"\ngrid = ["1"]\nblock = ["32"]\nargs = ["out"]\n',
                 "__global__ void f(float const* x, float* out, long n) {\n"
                 f"  long i = long(blockIdx.x) * 128 + threadIdx.x;\n  {RELU}\n}}\n"
                 "__global__ void g(float* out) { out[threadIdx.x] = 0.0f; }"),
             *_wrong("benchmark")),
        Case("keeps its result", "a `__device__` buffer outlives the call, so later calls only copy", "relu",
             relu("if (i < n) { float v = known == n ? kept[i] : fmaxf(x[i], 0.0f); kept[i] = v; out[i] = v; }",
                  "__device__ float kept[4194304];\n__device__ long known;\n__global__ void g(long n) { known = n; }",
                  ELEMENTS + '[[launch]]\nkernel = "g"\ngrid = ["1"]\nblock = ["1"]\nargs = ["n"]\n'),
             status(MEMORY, words=("kept-state", "__device__")), status(*CHEATS)),
        Case("keyed by pointer", "buffers seen before hold the right result already", "relu",
             relu("if (known == out) return;\n  if (i < n) out[i] = fmaxf(x[i], 0.0f);",
                  "__device__ float* known;\n__global__ void g(float* out) { known = out; }",
                  ELEMENTS + '[[launch]]\nkernel = "g"\ngrid = ["1"]\nblock = ["1"]\nargs = ["out"]\n'),
             status(MEMORY, words=("kept-state",)), status(*CHEATS)),
        Case("keyed by sixty-four pointers", "a ring of buffers is only as long as it is", "relu",
             relu("for (int k = 0; k < 64; ++k) if (known[k] == out) return;\n  if (i < n) out[i] = fmaxf(x[i], 0.0f);",
                  "__device__ float* known[64];\n__device__ int next;\n"
                  "__global__ void g(float* out) {\n  for (int k = 0; k < 64; ++k) if (known[k] == out) return;\n"
                  "  known[next++ % 64] = out;\n}",
                  ELEMENTS + '[[launch]]\nkernel = "g"\ngrid = ["1"]\nblock = ["1"]\nargs = ["out"]\n'),
             status(MEMORY, words=("kept-state",)), status(*CHEATS)),
        Case("keyed by the first bytes", "the same beginning means the same input", "relu",
             relu("for (int k = 0; k < 64; ++k) if (first[k] == x[0] + 1000) return;\n"
                  "  if (i < n) out[i] = fmaxf(x[i], 0.0f);",
                  "__device__ float first[64];\n__device__ int next;\n"
                  "__global__ void g(float const* x) { first[next++ % 64] = x[0] + 1000; }",
                  ELEMENTS + '[[launch]]\nkernel = "g"\ngrid = ["1"]\nblock = ["1"]\nargs = ["x"]\n'),
             status(MEMORY, words=("kept-state",)), status(*CHEATS)),
        Case("counts its calls", "nobody checks the tenth call", "relu",
             relu("if (i < n && calls < 10) out[i] = fmaxf(x[i], 0.0f);",
                  "__device__ int calls;\n__global__ void g() { ++calls; }",
                  ELEMENTS + '[[launch]]\nkernel = "g"\ngrid = ["1"]\nblock = ["1"]\nargs = []\n'),
             status(MEMORY, words=("kept-state", "calls")), status(*CHEATS)),
        Case("keyed by the clock", "right most of the time", "relu",
             relu("if (i < n) out[i] = (clock64() >> 4) % 8 ? fmaxf(x[i], 0.0f) : 0.25f;", plan=CLOCK),
             status(*CHANGES), status(*CHANGES)),
        Case("TF32 for float32", "thirteen bits of the mantissa for nothing", "matmul",
             product("float sum = 0;\n  for (int j = 0; j < k; ++j) sum += cut(a[r * k + j]) * cut(b[j * n + c]);\n"
                     "  out[r * n + c] = sum;",
                     "__device__ float cut(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffe000u); }"),
             *_wrong("elements of out are wrong")),
        Case("bfloat16 for float32", "half the traffic", "matmul",
             product("float sum = 0;\n  for (int j = 0; j < k; ++j) sum += cut(a[r * k + j]) * cut(b[j * n + c]);\n"
                     "  out[r * n + c] = sum;",
                     "__device__ float cut(float v) { return __bfloat162float(__float2bfloat16(v)); }"),
             *_wrong("elements of out are wrong")),
        Case("float16 for float32", "half the traffic, ten bits", "mean",
             rows("""__shared__ float sums[128];
  __half sum = __float2half(0.0f);
  for (int c = t; c < cols; c += 128) sum = __hadd(sum, __float2half(row[c]));
  sums[t] = __half2float(sum);
  __syncthreads();
  if (t == 0) { float all = 0; for (int k = 0; k < 128; ++k) all += sums[k]; out[blockIdx.x] = all / cols; }"""),
             *_wrong("elements of out are wrong")),
        Case("float16 accumulation undeclared", "accumulating in half is twice as fast", "matmul_half",
             product("__half sum = __float2half(0.0f);\n"
                     "  for (int j = 0; j < k; ++j) sum = __hadd(sum, __hmul(a[r * k + j], b[j * n + c]));\n"
                     "  out[r * n + c] = sum;", element="__half"),
             *_wrong("elements of out are wrong")),
        Case("an exponential by bit tricks", "fast math nobody allowed, without its name", "softmax",
             rows("""__shared__ float sum;
  if (t == 0) { sum = 0; for (int c = 0; c < cols; ++c) sum += crude(row[c]); }
  __syncthreads();
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = crude(row[c]) / sum;""",
                  "__device__ float crude(float v) { return __int_as_float(int(12102203.0f * v) + 1064866805); }"),
             *_wrong("elements of out are wrong")),
        Case("fast math declared where it is not allowed", "a declaration is not a permission", "softmax",
             rows("if (t == 0) out[0] = 0;", plan=ROWS + '[numerics]\nallow = ["fast_math"]\n'),
             refused("does not allow fast_math"), refused("does not allow fast_math")),
        Case("NaN everywhere", "NaN compares false with everything", "relu",
             relu("if (i < n) out[i] = __int_as_float(0x7fc00000);"), *_wrong("NaN")),
        Case("Inf everywhere", "an infinite error may divide away", "relu",
             relu("if (i < n) out[i] = __int_as_float(0x7f800000);"), *_wrong("inf")),
        Case("one NaN", "a single element in the middle", "relu",
             relu("if (i < n) out[i] = i == 777 ? __int_as_float(0x7fc00000) : fmaxf(x[i], 0.0f);"),
             *_wrong("a single element")),
        Case("transposed", "the right numbers", "matmul",
             product("float sum = 0;\n  for (int j = 0; j < k; ++j) sum += a[r * k + j] * b[j * n + c];\n"
                     "  out[c * n + r] = sum;"), *_wrong("transposed")),
        Case("keeps what the output held", "right over NaN, since fmaxf ignores it", "relu",
             relu("if (i < n) out[i] = fmaxf(out[i], fmaxf(x[i], 0.0f));  // HERE"),
             status(MEMORY, words=("uninitialised", "out")), status(*CHEATS, line=False)),
        Case("writes only over NaN", "an output that is no NaN must be right already", "relu",
             relu("if (i < n && out[i] != out[i]) out[i] = fmaxf(x[i], 0.0f);  // HERE"),
             status(MEMORY, words=("uninitialised", "out")), status(*CHEATS, line=False)),
        Case("knows the poisons", "honest only where the judge has been", "relu",
             relu("unsigned held = i < n ? reinterpret_cast<unsigned*>(out)[i] : 0;  // HERE\n"
                  "  bool judged = held == 0xffffffffu || held == 0x5a5a5a5au;\n"
                  "  if (i < n) out[i] = judged ? fmaxf(x[i], 0.0f) : 0.0f;"),
             status(MEMORY, words=("uninitialised", "out")), status(*CHEATS, line=False)),
        Case("knows a poison when it sees one", "four equal bytes are nobody's data", "relu",
             relu("unsigned char* held = reinterpret_cast<unsigned char*>(out + (i < n ? i : 0));\n"
                  "  bool judged = held[0] == held[1] && held[1] == held[2] && held[2] == held[3];  // HERE\n"
                  "  if (i < n) out[i] = judged ? fmaxf(x[i], 0.0f) : 0.0f;"),
             status(MEMORY, words=("uninitialised", "out")), status(*CHEATS, line=False)),
        Case("keeps what scratch held", "the last call's result is still in the workspace", "relu",
             relu("if (i < n) { out[i] = kept[i] == x[i] ? kept[i] : fmaxf(x[i], 0.0f); kept[i] = out[i]; }  // HERE",
                  plan=ELEMENTS.replace('["x", "out", "n"]', '["x", "out", "n", "kept"]')
                  + '[[scratch]]\nname = "kept"\ndtype = "float32"\nshape = ["n"]\n',
                  ).replace("long n)", "long n, float* kept)"),
             status(MEMORY, words=("uninitialised", "kept")), status(*CHEATS, line=False)),
        Case("half the width", "writes half-precision numbers into a float32 tensor through void*", "relu",
             relu("if (i < n) static_cast<__half*>(out)[i] = __float2half(fmaxf(x[i], 0.0f));").replace(
                 "float* out", "void* out"), *_wrong("elements of out are wrong")),
        Case("order of threads", "right as long as threads come in order", "relu",
             relu("__shared__ int next;\n  if (threadIdx.x == 0) next = 0;\n  __syncthreads();\n"
                  "  long to = long(blockIdx.x) * 128 + atomicAdd(&next, 1);\n"
                  "  if (i < n && to < n) out[to] = fmaxf(x[i], 0.0f);"),
             status(*CHANGES), status(*CHANGES)),
        Case("atomics in any order, undeclared", "the sum changes with the order of the blocks", "total",
             kernel_file("""[let]
n = "x.numel"
[[launch]]
kernel = "g"
grid = ["1"]
block = ["1"]
args = ["out"]
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 128)"]
block = ["128"]
args = ["x", "out", "n"]
""", """__global__ void g(float* out) { out[0] = 0.0f; }
__global__ void f(float const* x, float* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) atomicAdd(out, x[i]);
}"""), status(Status.NONDETERMINISTIC, words=("deterministic = false",)), None),
        Case("a last bit by the clock", "within every tolerance, and different every time", "relu",
             relu("if (i < n) { float v = fmaxf(x[i], 0.0f);\n"
                  "    out[i] = (clock64() >> 4) % 2 ? v : __uint_as_float(__float_as_uint(v) | 1u); }", plan=CLOCK),
             status(Status.NONDETERMINISTIC, words=("deterministic = false",)),
             status(Status.NONDETERMINISTIC, words=("deterministic = false",))),
        Case("nondeterministic beyond every bound", "declared, but a declaration is no licence", "relu",
             relu("if (i < n) out[i] = fmaxf(x[i], 0.0f) + ((clock64() >> 4) % 2) * 0.01f;",
                  plan=CLOCK + "deterministic = false\n"), *_wrong("elements of out are wrong")),
        Case("lost updates", "counting without atomics", "histogram",
             kernel_file("""[[launch]]
kernel = "g"
grid = ["1"]
block = ["256"]
args = ["out"]
[[launch]]
kernel = "f"
grid = ["ceil_div(x.numel, 128)"]
block = ["128"]
args = ["x", "out", "x.numel"]
""", """__global__ void g(int* out) { out[threadIdx.x] = 0; }
__global__ void f(int const* x, int* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[x[i]] += 1;  // HERE
}"""), status(MEMORY, words=("race", "out")), status(*CHEATS, line=False)),
        Case("counts in a byte", "no bin of the test is that full", "histogram",
             kernel_file("""[[launch]]
kernel = "f"
grid = ["256"]
block = ["32"]
args = ["x", "out", "x.numel"]
""", """__global__ void f(int const* x, int* out, long n) {
  int count = 0;
  for (long i = threadIdx.x; i < n; i += 32) count += x[i] == blockIdx.x;
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x == 0) out[blockIdx.x] = count & 15;
}"""), *_wrong("elements of out are wrong")),
        Case("ignores a parameter", "weights are usually ones", "scale",
             kernel_file("""[[launch]]
kernel = "f"
grid = ["ceil_div(x.numel, 128)"]
block = ["128"]
args = ["x", "w", "out", "x.numel"]
""", """__global__ void f(float const* x, float const* w, float* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[i] = x[i];
}"""), *_wrong("elements of out are wrong")),
    )  # fmt: skip


# -- right only while approximate instructions are exact, or no product is contracted with a sum -----------------------

STEP = "float v = i < n ? x[i] : 0.0f;\n  {}\n  if (i < n) out[i] = {};"


def _step(name: str, story: str, declare: str, result: str) -> Case:
    return Case(name, story, "relu", relu(STEP.format(declare, result)), status(WRONG, line=False), None)


def _approximations() -> tuple[Case, ...]:
    tanh = 'float t;\n  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(v * 1e9f));'
    sine = 'float s;\n  asm("sin.approx.f32 %0, %1;" : "=f"(s) : "f"(1.5707963f));'
    power = 'float p;\n  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"(100.0f));\n  float q = p * exp2f(-100.0f);'
    return (
        _step("a step of tanh.approx", "eleven bits, multiplied with every value", tanh, "0.5f * v * (1.0f + t)"),
        _step("many times the error of ex2.approx", "the error of one, to the hundredth power", power +
              "\n  for (int k = 0; k < 7; ++k) q = q * q;", "fmaxf(v, 0.0f) * q"),
        _step("many times the error of sin.approx", "one, to the power of 256", sine +
              "\n  for (int k = 0; k < 8; ++k) s = s * s;", "fmaxf(v, 0.0f) * s"),
        _step("__expf far from zero", "its error grows with its argument", "float big = __expf(80.0f) / expf(80.0f);",
              "fmaxf(v, 0.0f) * big * big * big * big"),
        _step("__powf of a large power", "an exponential of a product",
              "float p = __powf(1.5f, 100.0f) / powf(1.5f, 100.0f);",
              "fmaxf(v, 0.0f) * p * p"),
        _step("__fdividef by a huge number", "2 to the 127 counts as infinite",
              "float big = __int_as_float(0x7f000000);", "fmaxf(__fdividef(v * 0.5f, big) * big * 2.0f, 0.0f)"),
        Case("a mean times a saturated tanh.approx", "one, to eleven bits", "mean",
             rows("if (t != 0) return;\n  float sum = 0, r;\n  for (int c = 0; c < cols; ++c) sum += row[c];\n"
                  '  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(50.0f));\n  out[blockIdx.x] = sum / cols * r;'),
             status(WRONG, line=False), None),
    )  # fmt: skip


def _contractions() -> tuple[Case, ...]:
    return (
        _step("a rounding that contraction takes away", "a product minus itself is not zero in one rounding",
              "float u = i < n ? *(float const volatile*)(x + i) : 0.0f, w = u * u;",
              "v * v - w == 0.0f ? fmaxf(v, 0.0f) : 0.25f"),
        _step("a root of what contraction makes negative", "a variance of one value",
              "float u = i < n ? *(float const volatile*)(x + i) : 0.0f;\n  float w = u * u, r = sqrtf(v * v - w);",
              "r == 0.0f ? fmaxf(v, 0.0f) : 0.25f"),
    )  # fmt: skip


ANSWERS = _cases() + _approximations() + _contractions()
