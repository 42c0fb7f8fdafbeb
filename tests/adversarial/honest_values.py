"""Honest kernels that values or sizes of an unusual kind must not block."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import kernel_file, product, relu, rows
from tests.adversarial.hostile_values import PICK

RIGHT = status(Status.PASSED)


def _case(name: str, story: str, problem: str, source: str) -> Case:
    return Case(name, story, problem, source, RIGHT, RIGHT)


def _elementwise() -> tuple[Case, ...]:
    return (
        _case("tanh that saturates", "one minus two over an exponential plus one", "tanh",
              relu("if (i < n) out[i] = 1.0f - 2.0f / (expf(2.0f * x[i]) + 1.0f);")),
        _case("SiLU by a quotient", "minus infinity over infinity is NaN, as in torch", "silu",
              relu("if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));")),
        _case("softplus without overflow", "the exponential of what is not positive", "softplus",
              relu("if (i < n) out[i] = isnan(x[i]) ? x[i] : fmaxf(x[i], 0.0f) + log1pf(expf(-fabsf(x[i])));")),
        _case("the sign by its bit", "minus zero counts as negative", "copysign",
              relu("if (i < n) out[i] = signbit(x[i]) ? -1.0f : 1.0f;")),
    )  # fmt: skip


def _reductions() -> tuple[Case, ...]:
    return (
        _case("one thread a row", "added up in sequence, rounding after rounding", "mean",
              rows("if (t == 0) { float sum = 0; for (int c = 0; c < cols; ++c) sum += row[c];\n"
                   "    out[blockIdx.x] = sum / cols; }")),
        _case("Kahan's sum of rows", "what a rounding loses is added to the next element", "mean",
              rows("if (t > 0) return;\n  float sum = 0, lost = 0;\n"
                   "  for (int c = 0; c < cols; ++c) {\n"
                   "    float const v = row[c] - lost, next = sum + v;\n"
                   "    lost = isfinite(next) ? (next - sum) - v : 0.0f;\n    sum = next;\n  }\n"
                   "  out[blockIdx.x] = sum / cols;")),
        _case("largest that keeps NaN", "a comparison that NaN wins", "rowmax",
              rows("if (t > 0) return;\n  float top = -INFINITY;\n"
                   "  for (int c = 0; c < cols; ++c) top = pick(top, row[c]);\n  out[blockIdx.x] = top;", PICK)),
        _case("Welford's variance of rows", "mean and variance in one pass, without cancellation", "layernorm",
              rows("""__shared__ float mean, scale;
  if (t == 0) {
    float m = 0, s = 0;
    for (int c = 0; c < cols; ++c) {
      float const d = row[c] - m;
      m += d / (c + 1);
      s += d * (row[c] - m);
    }
    mean = m;
    scale = rsqrtf(s / cols + 1e-5f);
  }
  __syncthreads();
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = (row[c] - mean) * scale;""")),
        _case("logsumexp in one pass", "rescaled whenever a larger one comes", "logsumexp",
              rows("""if (t > 0) return;
  float top = -FLT_MAX, sum = 0;
  for (int c = 0; c < cols; ++c) {
    float const next = fmaxf(top, row[c]);
    sum = sum * expf(top - next) + expf(row[c] - next);
    top = next;
  }
  out[blockIdx.x] = top + logf(sum);""")),
    )  # fmt: skip


def _structures() -> tuple[Case, ...]:
    return (
        _case("a triangle's zeros are skipped", "what is always zero need not be multiplied", "triangle",
              product("float sum = 0;\n  for (int j = 0; j <= r; ++j) sum += a[r * k + j] * b[j * n + c];\n"
                      "  out[r * n + c] = sum;")),
        _case("zeros are skipped", "zero times infinity is not computed", "matmul",
              product("float sum = 0;\n  for (int j = 0; j < k; ++j)\n"
                      "    if (a[r * k + j] != 0.0f) sum += a[r * k + j] * b[j * n + c];\n  out[r * n + c] = sum;")),
        _case("offsets in order", "an index never falls, so each stretch is one loop", "offsets",
              kernel_file("""[[launch]]
kernel = "f"
grid = ["out.numel"]
block = ["32"]
args = ["x", "s", "out"]
""", """__global__ void f(float const* x, long long const* s, float* out) {
  float sum = 0;
  for (long i = s[blockIdx.x] + threadIdx.x; i < s[blockIdx.x + 1]; i += 32) sum += x[i];
  for (int k = 16; k; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}""")),
        _case("segments with atomics", "hubs and empty segments, in any order", "segments",
              kernel_file("""[let]
width = "x.shape[1]"
[[launch]]
kernel = "zero"
grid = ["ceil_div(out.numel, 128)"]
block = ["128"]
args = ["out", "out.numel"]
[[launch]]
kernel = "f"
grid = ["x.shape[0]"]
block = ["32"]
args = ["x", "s", "out", "width"]
[numerics]
deterministic = false
""", """__global__ void zero(float* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[i] = 0.0f;
}
__global__ void f(float const* x, long long const* s, float* out, int width) {
  for (int c = threadIdx.x; c < width; c += 32)
    atomicAdd(&out[s[blockIdx.x] * width + c], x[long(blockIdx.x) * width + c]);
}""")),
        _case("vectors where four divides", "two ways through a row, and both are right", "rowmax",
              rows("""if (t > 0) return;
  float top = -INFINITY;
  if (cols % 4 == 0) {
    for (int c = 0; c < cols; c += 4) {
      float4 const v = *reinterpret_cast<float4 const*>(row + c);
      top = pick(pick(pick(pick(top, v.x), v.y), v.z), v.w);
    }
  } else for (int c = 0; c < cols; ++c) top = pick(top, row[c]);
  out[blockIdx.x] = top;""", PICK)),
    )  # fmt: skip


HONEST_VALUES = (*_elementwise(), *_reductions(), *_structures())
