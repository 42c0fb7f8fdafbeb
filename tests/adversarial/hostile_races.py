"""Kernels whose threads or blocks meet without the order that they need, or that read what is not there.

Each computes the right values when blocks and threads run one after another.
"""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, status
from tests.adversarial.files import ELEMENTS, RELU, kernel_file, relu

MEMORY = Status.MEMORY_ERROR
WITH_WORK = ELEMENTS.replace('["x", "out", "n"]', '["x", "out", "n", "work"]')


def _scratch(dtype: str = "float32", init: str = "zero", shape: str = "n + 256") -> str:
    return f'{WITH_WORK}[[scratch]]\nname = "work"\ndtype = "{dtype}"\nshape = ["{shape}"]\ninit = "{init}"\n'


def _worked(statements: str, kind: str = "float", before: str = "", plan: str = "") -> str:
    made = relu(statements, before, plan or _scratch())
    return made.replace("long n)", f"long n, {kind}* work)")


def _race(*words: str, line: bool = True) -> tuple[Expected, None]:
    return status(MEMORY, words=words, line=line), None


def _widths() -> tuple[Case, ...]:
    """Write a kernel: one thread writes an element, another one reads or writes a part of it or more than it."""
    ways = {
        "one byte of": "reinterpret_cast<unsigned char*>(work)[4 * threadIdx.x + 1]",
        "two bytes of": "reinterpret_cast<unsigned short*>(work)[2 * threadIdx.x + 1]",
        "eight bytes around": "reinterpret_cast<long long*>(work)[threadIdx.x / 2]",
    }
    return tuple(
        Case(f"reads {name} what another block wrote", "the race is narrower or wider than the elements", "relu",
             _worked(f"work[threadIdx.x] = blockIdx.x + 1.5f;\n  auto part = {way};  // HERE\n"
                     "  if (part == 99) out[0] = 1;\n  " + RELU), *_race("race", "work", line=False))
        for name, way in ways.items()
    ) + tuple(
        Case(f"writes {name} what another thread wrote", "no barrier in between", "relu",
             _worked(f"work[blockIdx.x * 128 + (threadIdx.x ^ 1)] = 2.5f + i;\n"
                     f"  {way.replace('threadIdx.x', '(blockIdx.x * 128 + threadIdx.x)')} = char(1 + i % 5); "
                     f" // HERE\n  "
                     + RELU, plan=_scratch(shape="n + 512")), *_race("race", "work", line=False))
        for name, way in ways.items()
    ) + (
        Case("reads sixteen bytes of what its neighbours write", "a vector over four threads' elements", "relu",
             _worked("work[blockIdx.x * 128 + threadIdx.x] = 1.5f;\n"
                     "  float4 v = reinterpret_cast<float4*>(work)[blockIdx.x * 32 + threadIdx.x / 4];  // HERE\n"
                     "  if (v.x + v.y == 99) out[0] = 1;\n  " + RELU, plan=_scratch(shape="n + 512")),
             *_race("race", "work", line=False)),
        Case("bytes of an integer tensor", "flags packed into words", "relu",
             _worked("unsigned char* flags = reinterpret_cast<unsigned char*>(work);\n  flags[threadIdx.x / 2] = "
                     "(unsigned char)i;  // HERE\n  " + RELU, "int", plan=_scratch("int32")), *_race("race", "work")),
        Case("writes a float whole and by atomics", "one block stores what others add to", "relu",
             _worked("if (threadIdx.x == 0 && blockIdx.x % 2) atomicAdd(work, 1.0f);\n"
                     "  if (threadIdx.x == 0 && blockIdx.x % 2 == 0) work[0] = i;  // HERE\n  " + RELU),
                     *_race("race", "work")),
        Case("reads half of what atomics add to", "the low half of a pair", "relu",
             _worked("if (threadIdx.x == 0) atomicAdd(reinterpret_cast<__half2*>(work), __half2{1.f, 1.f});\n"
                     "  __half low = reinterpret_cast<__half*>(work)[0];\n"
                     "  if (float(low) < 0) out[0] = 1;\n  " + RELU), *_race("race", "work")),
    )  # fmt: skip


def _variables() -> tuple[Case, ...]:
    return (
        Case("a __device__ variable every thread writes", "each reads its own value back", "relu",
             relu("slot = i < n ? x[i] : 0.0f;  // HERE\n  float v = slot;\n"
                  "  if (i < n) out[i] = fmaxf(v, 0.0f);\n  slot = 0;",
                  "__device__ float slot;"), *_race("race", "slot")),
        Case("a __device__ array between blocks", "the block before has left something there", "relu",
             relu("float before = kept[(blockIdx.x + 1) % 64];  // HERE\n"
                  "  if (threadIdx.x == 0) kept[blockIdx.x % 64] = 0.0f * before + 1;\n  "
                  "if (threadIdx.x == 0) kept[blockIdx.x % 64] = 0;\n  " + RELU,
                  "__device__ float kept[64];"), *_race("race", "kept")),
        Case("a __device__ counter without atomics", "counted and uncounted again", "relu",
             relu(f"++counter;  // HERE\n  {RELU}\n  --counter;", "__device__ int counter;"),
             *_race("race", "counter")),
        Case("bytes of a __device__ variable", "two threads a byte", "relu",
             relu(f"flags[threadIdx.x / 2] = char(i % 7 + 1);  // HERE\n  {RELU}\n  flags[threadIdx.x / 2] = 0;",
                  "__device__ char flags[64];"), *_race("race", "flags")),
        Case("past the end of a __device__ array", "into the next variable", "relu",
             relu(f"if (i == 0) table[4 + int(n & 0)] = 0;  // HERE\n  {RELU}", "__device__ float table[4], other[4];"),
             status(MEMORY, line=False), None),
    )  # fmt: skip


LAST = """__shared__ bool last;
  float sum = 0;
  {work}
  if (threadIdx.x == 0) {{ {signal} }}
  __syncthreads();
  if (last) {{ {after} for (int k = threadIdx.x; k < int(gridDim.x) * 128; k += 128) sum += {read}; }}
  if (sum == 12345.0f && i < n) out[i] = sum; else {relu}"""
SIGNAL = "last = atomicAdd(reinterpret_cast<unsigned*>(work) + n + 300, 1u) == gridDim.x - 1;"
WROTE = "work[blockIdx.x * 128 + threadIdx.x] = i < n ? x[i] : 0.0f;"


def _last(work: str, signal: str, after: str = "__threadfence();", read: str = "work[k]") -> str:
    body = LAST.format(work=work, signal=signal, after=after, read=read, relu=RELU)
    return _worked(body, plan=_scratch(shape="n + 512"))


def _fences() -> tuple[Case, ...]:
    return (
        Case("a fence alone", "no atomic behind it", "relu",
             _worked("work[blockIdx.x * 128 + threadIdx.x] = 1.0f;\n  __threadfence();\n"
                     "  float other = work[(i + 128) % n];  // HERE\n"
                     f"  if (other == 12345.0f && i < n) out[i] = 0.0f; else {RELU}", plan=_scratch(shape="n + 512")),
             *_race("race", "work", "fence")),
        Case("a fence and a barrier", "neither reaches another block", "relu",
             _worked("work[blockIdx.x * 128 + threadIdx.x] = 1.0f;\n  __threadfence();\n  __syncthreads();\n"
                     "  float other = work[(i + 128) % n];  // HERE\n"
                     f"  if (other == 12345.0f && i < n) out[i] = 0.0f; else {RELU}", plan=_scratch(shape="n + 512")),
             *_race("race", "work")),
        Case("the last block without a fence", "the atomic alone", "relu",
             _last(f"{WROTE}\n  __syncthreads();", SIGNAL), *_race("race", "work")),
        Case("the last block with the fence behind the atomic", "the wrong way round", "relu",
             _last(f"{WROTE}\n  __syncthreads();", f"{SIGNAL} __threadfence();"), *_race("race", "work")),
        Case("the last block without a barrier before", "only the first thread's values are fenced", "relu",
             _last(WROTE, f"__threadfence(); {SIGNAL}"), *_race("race", "work")),
        Case("the last block with a fence of the block", "__threadfence_block reaches nobody else", "relu",
             _last(f"{WROTE}\n  __threadfence_block();\n  __syncthreads();", SIGNAL), *_race("race", "work")),
        Case("the last block with two counters", "signals at one place, looks at another", "relu",
             _last(f"{WROTE}\n  __threadfence();\n  __syncthreads();",
                   "if (blockIdx.x) atomicAdd(reinterpret_cast<unsigned*>(work) + n + 301, 1u); "
                   "unsigned other = atomicAdd(reinterpret_cast<unsigned*>(work) + n + 302 + blockIdx.x, 0u); "
                   "last = blockIdx.x == 0 && other == 0;"), *_race("race", "work")),
        Case("the last block writes again after its fence", "only what came before it is performed", "relu",
             _last(f"{WROTE}\n  __threadfence();\n  {WROTE.replace('x[i]', 'x[i] + 1')}\n  __syncthreads();", SIGNAL),
             *_race("race", "work")),
        Case("a volatile counter", "lost updates that a fence does not prevent", "relu",
             _worked("volatile float* counter = work + n + 200;\n"
                     "  if (threadIdx.x == 0) *counter = *counter + 1.0f;  // HERE\n"
                     f"  __threadfence();\n  {RELU}"), *_race("race", "work")),
        Case("a lock without fences", "the values may come after the key", "relu",
             _worked("int* lock = reinterpret_cast<int*>(work) + n + 200;\n  if (threadIdx.x == 0) {\n"
                     "    while (atomicCAS(lock, 0, 1)) {}\n    work[0] += 1.0f;  // HERE\n"
                     "    atomicExch(lock, 0);\n  }\n  "
                     + RELU), *_race("race", "work")),
        Case("a flag whose data has no fence", "volatile flag, plain data", "relu",
             _worked("volatile float* flags = work + n + 100;\n  if (threadIdx.x == 0) {\n"
                     "    work[blockIdx.x] = 2.0f;\n    flags[blockIdx.x] = 1.0f;\n"
                     "    int next = (blockIdx.x + 1) % gridDim.x;\n"
                     "    float other = flags[next] > 0 ? work[next] : 0;  // HERE\n"
                     "    if (other == 12345.0f) out[0] = 0;\n  }\n  " + RELU), *_race("race", "work")),
    )  # fmt: skip


def _read_only() -> tuple[Case, ...]:
    return (
        Case("reads its own output through the read-only cache", "__ldg of what was just written", "relu",
             relu("if (i < n) { out[i] = x[i]; out[i] = fmaxf(__ldg(out + i), 0.0f); }  // HERE"),
             *_race("read-only-load", "out")),
        Case("reads scratch through the read-only cache in PTX", "ld.global.nc", "relu",
             _worked('work[i % n] = 1.0f;\n  float v;\n'
                     '  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(work + i % n));'
                     f"  // HERE\n  if (v == 12345.0f && i < n) out[i] = 0.0f; else {RELU}"),
             status(MEMORY, words=("work",), line=False), None),
        Case("writes after others read through the read-only cache", "the other way round", "relu",
             relu("if (i < n) { out[i] = x[i]; }\n  __syncthreads();\n  if (i < n) { float v = __ldg(x + i); "
                  "out[i] = fmaxf(v, 0.0f); "
                  "v = __ldg(out + i); if (v == 12345.0f) out[i] = 0; }  // HERE"), *_race("read-only-load", "out")),
        Case("reads scratch as vectors through the read-only cache", "four at once", "relu",
             _worked("work[4 * (i % 32)] = 1.0f;\n  __syncthreads();\n"
                     "  float4 v = __ldg(reinterpret_cast<float4 const*>(work) + i % 32);\n"
                     f"  if (v.y == 12345.0f && i < n) out[i] = 0.0f; else {RELU}"),
                     status(MEMORY, words=("work",), line=False), None),
        Case("breaks the promise of __restrict__", "the same buffer twice, once to read and once to write", "relu",
             kernel_file(_scratch().replace('"work"]', '"work", "work"]'),
                         """__global__ void f(float const* x, float* out, long n, float* work,
                  float const* __restrict__ again) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) { work[i] = fmaxf(x[i], 0.0f); out[i] = again[i]; }
}"""), status(Status.LAUNCH_ERROR, words=("__restrict__", "work")),
             status(Status.LAUNCH_ERROR, words=("__restrict__",))),
    )  # fmt: skip


def _over_reads() -> tuple[Case, ...]:
    return (
        Case("reads past the end at larger sizes only", "the small input ends before it", "relu",
             relu(f"if (n > 1000 && i == n - 1) {{ float v = x[n]; if (v == 12345.0f) out[0] = v; }}\n  {RELU}"),
             status(MEMORY, words=("x",), line=False), None),
        Case("reads before the start at larger sizes only", "element -1", "relu",
             relu(f"if (n > 1000 && i == 0) {{ float v = x[-1]; if (v == 12345.0f) out[0] = v; }}\n  {RELU}"),
             status(MEMORY, words=("x",), line=False), None),
        Case("reads scratch past the end at larger sizes only", "memory of the host", "relu",
             _worked(f"if (n > 1000 && i == 0) {{ float v = work[n]; if (v == 12345.0f) out[0] = v; }}\n  {RELU}",
                     plan=_scratch(shape="n")), status(MEMORY, words=("work",), line=False), None),
        Case("reads part of an element nobody wrote", "three of four bytes", "relu",
             _worked("unsigned char* bytes = reinterpret_cast<unsigned char*>(work + i % n);\n"
                     "  if (i < n) for (int b = 0; b < 3; ++b) bytes[b] = 1;\n"
                     f"  if (i < n && work[i] == 12345.0f) out[i] = 0.0f; "
                     f"else {RELU}  // HERE", plan=_scratch(init="none")),
             status(MEMORY, words=("uninitialised", "work")), None),
    )  # fmt: skip


RACE_CASES = _widths() + _variables() + _fences() + _read_only() + _over_reads()
