"""Kernels that are right on the values of `get_inputs` and wrong on others that the problem allows."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import kernel_file, product, relu, rows

PICK = "__device__ float pick(float a, float b) { return b > a || isnan(b) ? b : a; }"
"""The larger one; NaN where either is."""

WRONG = status(Status.INCORRECT_NUMERICAL)
_ELEMENT = "long i = long(blockIdx.x) * 128 + threadIdx.x;"
_WHOLE_ROW = """  __shared__ float top, sum, squares;
  if (t == 0) {
    top = START; sum = 0; squares = 0;
    for (int c = 0; c < cols; ++c) { top = LARGER(top, row[c]); sum += row[c]; squares += row[c] * row[c]; }
  }
  __syncthreads();
"""


def _case(name: str, story: str, problem: str, source: str) -> Case:
    return Case(name, story, problem, source, WRONG, WRONG)


def _row(statements: str, start: str = "-INFINITY", larger: str = "pick") -> str:
    """Write a kernel of a block a row, which knows the row's largest element, sum and sum of squares."""
    return rows(_WHOLE_ROW.replace("START", start).replace("LARGER", larger) + statements, PICK)


def _each(value: str) -> str:
    return f"for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = {value};"


def _elementwise() -> tuple[Case, ...]:
    return (
        _case("ReLU without NaN", "fmaxf returns the other operand, so a NaN becomes 0", "relu",
              relu("if (i < n) out[i] = fmaxf(x[i], 0.0f);")),
        _case("ReLU as a comparison", "NaN is not above 0 either", "relu",
              relu("if (i < n) out[i] = x[i] > 0.0f ? x[i] : 0.0f;")),
        _case("ReLU as a product", "minus infinity times 0 is NaN", "relu",
              relu("if (i < n) out[i] = x[i] * (x[i] < 0.0f ? 0.0f : 1.0f);")),
        _case("ReLU that saturates", "no value above 100 was ever seen", "relu",
              relu("if (i < n) out[i] = x[i] > 100.0f ? 100.0f : x[i] < 0.0f ? 0.0f : x[i];")),
        _case("ReLU through integers", "fixed point, 40 bits behind the point", "relu",
              relu("if (i < n) out[i] = x[i] < 0.0f ? 0.0f : float((long long)(x[i] * 1099511627776.0f))"
                   " / 1099511627776.0f;")),
        _case("a slope that ends", "very negative values are clamped", "leaky",
              relu("if (i < n) out[i] = x[i] < -20.0f ? -0.2f : x[i] < 0.0f ? 0.01f * x[i] : x[i];")),
        _case("tanh by exponentials", "infinity over infinity above 44", "tanh",
              relu("if (i < n) { float e = expf(2.0f * x[i]); out[i] = (e - 1.0f) / (e + 1.0f); }")),
        _case("SiLU by the wrong exponential", "infinity over infinity above 88", "silu",
              relu("if (i < n) { float e = expf(x[i]); out[i] = x[i] * e / (1.0f + e); }")),
        _case("softplus by its formula", "the exponential overflows above 88", "softplus",
              relu("if (i < n) out[i] = logf(1.0f + expf(x[i]));")),
        _case("the sign of zero", "minus zero is not below zero", "copysign",
              relu("if (i < n) out[i] = x[i] < 0.0f ? -1.0f : 1.0f;")),
    )  # fmt: skip


def _reductions() -> tuple[Case, ...]:
    return (
        _case("softmax without the largest", "exponentials of small numbers do not overflow", "softmax",
              rows("__shared__ float sum;\n  if (t == 0) sum = 0;\n"
                   "  for (int c = 0; t == 0 && c < cols; ++c) sum += expf(row[c]);\n"
                   "  __syncthreads();\n  " + _each("expf(row[c]) / sum"))),
        _case("softmax from 0", "the largest is never below 0", "softmax",
              rows("__shared__ float top, sum;\n  if (t == 0) { top = 0; sum = 0;\n"
                   "    for (int c = 0; c < cols; ++c) top = fmaxf(top, row[c]);\n"
                   "    for (int c = 0; c < cols; ++c) sum += expf(row[c] - top); }\n"
                   "  __syncthreads();\n  " + _each("expf(row[c] - top) / sum"))),
        _case("softmax by the first 32", "the largest of a part is large enough", "softmax",
              rows("__shared__ float top, sum;\n  if (t == 0) { top = -INFINITY; sum = 0;\n"
                   "    for (int c = 0; c < min(cols, 32); ++c) top = fmaxf(top, row[c]);\n"
                   "    for (int c = 0; c < cols; ++c) sum += expf(row[c] - top); }\n"
                   "  __syncthreads();\n  " + _each("expf(row[c] - top) / sum"))),
        _case("logsumexp without the largest", "exponentials of small numbers do not overflow", "logsumexp",
              rows("if (t == 0) { float sum = 0; for (int c = 0; c < cols; ++c) sum += expf(row[c]);\n"
                   "    out[blockIdx.x] = logf(sum); }")),
        _case("the last of equal elements", "no two elements are equal", "argmax",
              rows("if (t == 0) { int best = 0;\n"
                   "    for (int c = 1; c < cols; ++c) if (row[c] >= row[best]) best = c;\n"
                   "    out[blockIdx.x] = best; }").replace("float* out", "long* out")),
        _case("largest from 0", "some element is always positive", "rowmax",
              _row("if (t == 0) out[blockIdx.x] = top;", start="0.0f")),
        _case("largest from -1e30", "nothing is smaller", "rowmax",
              _row("if (t == 0) out[blockIdx.x] = top;", start="-1e30f")),
        _case("largest without NaN", "fmaxf drops a NaN, torch keeps it", "rowmax",
              _row("if (t == 0) out[blockIdx.x] = top;", larger="fmaxf")),
        _case("largest without the tail", "the last elements are seldom the largest", "rowmax",
              rows("if (t == 0) { float top = -INFINITY;\n"
                   "    for (int c = 0; c < cols / 4 * 4; ++c) top = pick(top, row[c]);\n"
                   "    out[blockIdx.x] = top; }", PICK)),
        _case("largest without the first", "the first element is seldom the largest", "rowmax",
              rows("if (t == 0) { float top = row[1];\n    for (int c = 1; c < cols; ++c) top = pick(top, row[c]);\n"
                   "    out[blockIdx.x] = top; }", PICK)),
        _case("largest of columns without the tail", "the last rows are seldom the largest", "colmax",
              kernel_file("""[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["1"]
block = ["cols"]
args = ["x", "out", "rows", "cols"]
""", """__global__ void f(float const* x, float* out, int rows, int cols) {
  float top = -INFINITY;
  for (int r = 0; r < rows / 4 * 4; ++r) {
    float v = x[long(r) * cols + threadIdx.x];
    if (v > top || isnan(v)) top = v;
  }
  out[threadIdx.x] = top;
}""")),
        _case("variance in one pass", "the mean of the squares minus the square of the mean", "layernorm",
              _row("float mean = sum / cols, scale = rsqrtf(squares / cols - mean * mean + 1e-5f);\n  "
                   + _each("(row[c] - mean) * scale"))),
        _case("LayerNorm with another epsilon", "1e-6 instead of 1e-5 is lost beside a variance of one", "layernorm",
              rows("""__shared__ float mean, scale;
  if (t == 0) {
    float sum = 0, squares = 0;
    for (int c = 0; c < cols; ++c) sum += row[c];
    mean = sum / cols;
    for (int c = 0; c < cols; ++c) squares += (row[c] - mean) * (row[c] - mean);
    scale = rsqrtf(squares / cols + 1e-6f);
  }
  __syncthreads();
  """ + _each("(row[c] - mean) * scale"))),
        _case("RMSNorm without epsilon", "no row is all zeros", "rmsnorm",
              _row(_each("row[c] * rsqrtf(squares / cols)"))),
        _case("RMSNorm with epsilon in the sum", "divided by the number of columns like the rest", "rmsnorm",
              _row(_each("row[c] * rsqrtf((squares + 1e-6f) / cols)"))),
        _case("unit rows without a guard", "no row is all zeros", "unit",
              _row(_each("row[c] / sqrtf(squares)"))),
        _case("mean in fixed point", "sums of integers are the same in any order", "mean",
              rows("if (t == 0) { long long sum = 0;\n"
                   "    for (int c = 0; c < cols; ++c) sum += (long long)(double(row[c]) * 4503599627370496.0);\n"
                   "    out[blockIdx.x] = float(double(sum) / 4503599627370496.0 / cols); }")),
        _case("mean that stops at zero", "a zero ends the row", "mean",
              rows("if (t == 0) { float sum = 0;\n"
                   "    for (int c = 0; c < cols && row[c] != 0.0f; ++c) sum += row[c];\n"
                   "    out[blockIdx.x] = sum / cols; }")),
        _case("product that skips what is small", "elements of a below 1e-3 hardly count", "matmul",
              product("float sum = 0;\n  for (int j = 0; j < k; ++j) {\n"
                      "    float v = a[r * k + j];\n    if (fabsf(v) < 1e15f) sum += v * b[j * n + c];\n  }\n"
                      "  out[r * n + c] = sum;")),
    )  # fmt: skip


def _indices() -> tuple[Case, ...]:
    segments = """[let]
rows = "x.shape[0]"
count = "out.shape[0]"
width = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["count"]
block = ["32"]
args = ["x", "s", "out", "rows", "width"]
"""
    return (
        _case("a bin of eight bits", "no bin ever holds 256", "histogram",
              kernel_file("""[[launch]]
kernel = "f"
grid = ["1"]
block = ["256"]
args = ["x", "out", "x.numel"]
""", """__global__ void f(int const* x, int* out, long n) {
  unsigned char count = 0;
  for (long i = 0; i < n; ++i) count += x[i] == threadIdx.x;
  out[threadIdx.x] = count;
}""")),
        _case("a segment of at most 64 rows", "no segment is that long", "segments",
              kernel_file(segments, """using Index = long long;
__global__ void f(float const* x, Index const* s, float* out, int rows, int width) {
  for (int c = threadIdx.x; c < width; c += 32) {
    float sum = 0;
    int met = 0;
    for (int r = 0; r < rows && met < 64; ++r) if (s[r] == blockIdx.x) { sum += x[long(r) * width + c]; ++met; }
    out[long(blockIdx.x) * width + c] = sum;
  }
}""")),
        _case("an empty segment repeats the one before", "every segment has rows", "segments",
              kernel_file(segments, """using Index = long long;
__global__ void f(float const* x, Index const* s, float* out, int rows, int width) {
  for (int c = threadIdx.x; c < width; c += 32) {
    float sum = 0;
    int met = 0;
    for (int r = 0; r < rows; ++r) if (s[r] == blockIdx.x) { sum += x[long(r) * width + c]; ++met; }
    out[long(blockIdx.x) * width + c] = met ? sum : 1.0f;
  }
}""")),
        _case("the last row of a table", "an index is seldom the last", "rows_of_a_table",
              kernel_file("""[let]
width = "t.shape[1]"
last = "t.shape[0] - 2"
[[launch]]
kernel = "f"
grid = ["s.numel"]
block = ["32"]
args = ["t", "s", "out", "width", "last"]
""", """__global__ void f(float const* t, long long const* s, float* out, int width, long last) {
  long row = s[blockIdx.x] < last ? s[blockIdx.x] : last;
  for (int c = threadIdx.x; c < width; c += 32) out[long(blockIdx.x) * width + c] = t[row * width + c];
}""")),
        _case("no element was chosen", "half of the elements always are", "product_of_masks",
              kernel_file("""[let]
cols = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["x.shape[0]"]
block = ["32"]
args = ["x", "m", "out", "cols"]
""", """__global__ void f(float const* x, bool const* m, float* out, int cols) {
  if (threadIdx.x) return;
  float sum = 0, count = 0;
  for (int c = 0; c < cols; ++c) if (m[long(blockIdx.x) * cols + c]) { sum += x[long(blockIdx.x) * cols + c]; ++count; }
  out[blockIdx.x] = sum / count;
}""")),
        _case("offsets of at most 256", "no stretch is that long", "offsets",
              kernel_file("""[[launch]]
kernel = "f"
grid = ["out.numel"]
block = ["32"]
args = ["x", "s", "out"]
""", """__global__ void f(float const* x, long long const* s, float* out) {
  if (threadIdx.x) return;
  long first = s[blockIdx.x], end = s[blockIdx.x + 1];
  float sum = 0;
  for (long i = first; i < end && i < first + 512; ++i) sum += x[i];
  out[blockIdx.x] = sum;
}""")),
    )  # fmt: skip


VALUE_CASES = (*_elementwise(), *_reductions(), *_indices())
