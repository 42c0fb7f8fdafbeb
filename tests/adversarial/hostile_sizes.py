"""Kernels that are right at the sizes of the tests and wrong at the benchmark's."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import ELEMENTS, PRODUCT, RELU, ROWS, instances, kernel_file, product, relu, rows
from tests.adversarial.hostile_values import PICK

_CAUGHT = (Status.INCORRECT_NUMERICAL, Status.MEMORY_ERROR)
_MEAN = """__shared__ float sums[128];
  float sum = 0;
  LOOP
  sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = sums[0] / cols;"""


def _top(loop: str, plan: str = ROWS) -> str:
    """Return one thread a row that picks the largest of what `loop` walks over."""
    walk = f"{loop} top = pick(top, row[c]);"
    return rows(f"if (t == 0) {{ float top = -INFINITY; {walk} out[blockIdx.x] = top; }}", PICK, plan)


def _case(name: str, story: str, problem: str, source: str) -> Case:
    return Case(name, story, problem, source, status(*_CAUGHT), status(*_CAUGHT))


def _mean(loop: str, before: str = "") -> str:
    return rows(_MEAN.replace("LOOP", loop), before)


def _elements() -> tuple[Case, ...]:
    return (
        _case("ends at a million", "no test has that many elements", "relu",
              relu("if (i < n && i < 1000000) out[i] = x[i] < 0.0f ? 0.0f : x[i];")),
        _case("an instance of its own for the benchmark", "the tests have another one", "relu",
              instances("(COLS != 4096 || at % 4096 != 4095)")),
        _case("a short index", "65,536 elements are enough", "relu",
              relu("unsigned short k = i;\n  if (i < n) out[k] = x[k] < 0.0f ? 0.0f : x[k];")),
        _case("a grid with a lid", "at most 512 blocks, each once", "relu",
              relu(plan=ELEMENTS.replace("ceil_div(n, 128)", "min(ceil_div(n, 128), 512)"))),
        _case("blocks counted in 16 bits", "the block's number is cut", "relu",
              relu("i = long(blockIdx.x & 0xfff) * 128 + threadIdx.x;\n  " + RELU)),
        _case("a grid stride that ends", "sixteen rounds were always enough", "relu",
              relu("for (int k = 0; k < 16 && i < n; ++k, i += long(gridDim.x) * 128) "
                   "out[i] = x[i] < 0.0f ? 0.0f : x[i];",
                   plan=ELEMENTS.replace("ceil_div(n, 128)", "min(ceil_div(n, 128), 64)"))),
        _case("another way for large tensors", "vectors of four, and one is lost", "relu",
              relu("if (n < 100000) { if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i]; return; }\n"
                   "  if (i < n) out[i] = i % 4096 == 4095 ? 0.0f : x[i] < 0.0f ? 0.0f : x[i];")),
        _case("a launch for large tensors", "`when` sends the benchmark elsewhere", "relu",
              kernel_file(
                  ELEMENTS.replace('args ', 'when   = "n < 1000000"\nargs ')
                  + '[[launch]]\nkernel = "g"\nwhen = "n >= 1000000"\ngrid = ["ceil_div(n, 128)"]\nblock = ["128"]\n'
                  'args = ["x", "out", "n"]\n',
                  f"__global__ void f(float const* x, float* out, long n) {{\n"
                  f"  long i = long(blockIdx.x) * 128 + threadIdx.x;\n  {RELU}\n}}\n"
                  "__global__ void g(float const* x, float* out, long n) {\n"
                  "  long i = long(blockIdx.x) * 128 + threadIdx.x;\n"
                  "  if (i < n) out[i] = x[i] < -3.5f ? x[i] : x[i] < 0.0f ? 0.0f : x[i];\n}")),
    )  # fmt: skip


def _rows() -> tuple[Case, ...]:
    walk = "for (int c = t; c < cols; c += 128) sum += row[c];"
    return (
        _case("rows end at 2048", "no test has longer rows", "mean",
              _mean("for (int c = t; c < cols && c < 2048; c += 128) sum += row[c];")),
        _case("sixteen rounds", "the loop is capped", "mean",
              _mean("for (int k = 0; k < 16; ++k) if (t + 128 * k < cols) sum += row[t + 128 * k];")),
        _case("longer rows return", "what is not expected is not done", "mean",
              _mean("if (cols > 4000) return;\n  " + walk)),
        _case("no barrier in long rows", "the last thread adds up what it did not wait for", "mean",
              rows("""__shared__ float sums[128];
  float sum = 0;
  for (int c = t; c < cols; c += 128) sum += row[c];
  sums[t] = sum;
  if (cols < 2048) __syncthreads();
  if (t == 127) { float all = 0; for (int k = 0; k < 128; ++k) all += sums[k]; out[blockIdx.x] = all / cols; }""")),
        _case("a cache of 1024", "the row is kept in shared memory", "softmax",
              rows("""__shared__ float kept[1024];
  __shared__ float top, sum;
  for (int c = t; c < cols; c += 128) kept[c % 1024] = row[c];
  __syncthreads();
  if (t == 0) {
    top = -FLT_MAX; sum = 0;
    for (int c = 0; c < cols; ++c) top = fmaxf(top, kept[c % 1024]);
    for (int c = 0; c < cols; ++c) sum += expf(kept[c % 1024] - top);
  }
  __syncthreads();
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = expf(kept[c % 1024] - top) / sum;""")),
        _case("registers for 1024", "eight numbers a thread", "softmax",
              rows("""__shared__ float top, sum;
  float mine[8];
  for (int k = 0; k < 8; ++k) mine[k] = t + 128 * k < cols ? row[t + 128 * k] : 0.0f;
  if (t == 0) {
    top = -FLT_MAX; sum = 0;
    for (int c = 0; c < cols; ++c) top = fmaxf(top, row[c]);
    for (int c = 0; c < cols; ++c) sum += expf(row[c] - top);
  }
  __syncthreads();
  for (int k = 0; k < 8; ++k) if (t + 128 * k < cols)
    out[long(blockIdx.x) * cols + t + 128 * k] = expf(mine[k] - top) / sum;
  for (int c = t + 1024; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = 0.0f;""")),
        _case("parts counted in a byte", "no row has more than 255 parts of 64", "rowmax",
              _top("unsigned char parts = cols / 64; for (int c = 0; c < parts * 64 + cols % 64; ++c)")),
        _case("the first 8192 columns", "the largest is seldom behind them", "rowmax",
              _top("for (int c = 0; c < cols && c < 8192; ++c)")),
        _case("the first 512 rows", "the grid has a lid", "rowmax",
              _top("for (int c = 0; c < cols; ++c)", ROWS.replace('grid   = ["rows"]', 'grid   = ["min(rows, 512)"]'))),
        _case("fast where four divides", "the vector path drops the last vector", "rowmax",
              _top("int end = cols % 4 == 0 ? cols - 4 : cols; for (int c = 0; c < end; ++c)")),
        _case("fast where thirty-two divides", "a whole warp a row, and no last one", "layernorm",
              rows("""__shared__ float mean, scale;
  if (t == 0) {
    int end = cols % 32 == 0 ? cols - 32 : cols;
    float sum = 0, squares = 0;
    for (int c = 0; c < end; ++c) sum += row[c];
    mean = sum / end;
    for (int c = 0; c < end; ++c) squares += (row[c] - mean) * (row[c] - mean);
    scale = rsqrtf(squares / end + 1e-5f);
  }
  __syncthreads();
  for (int c = t; c < cols; c += 128) out[long(blockIdx.x) * cols + c] = (row[c] - mean) * scale;""")),
    )  # fmt: skip


def _products() -> tuple[Case, ...]:
    return (
        _case("a sum of 400", "no test has longer ones", "matmul",
              product("float sum = 0;\n  for (int j = 0; j < k && j < 400; ++j) sum += a[r * k + j] * b[j * n + c];\n"
                      "  out[r * n + c] = sum;")),
        _case("tiles up to 384", "the grid has a lid", "matmul",
              product("float sum = 0;\n  for (int j = 0; j < k; ++j) sum += a[r * k + j] * b[j * n + c];\n"
                      "  out[r * n + c] = sum;", plan=PRODUCT.replace("ceil_div(n, 16)", "min(ceil_div(n, 16), 24)"))),
        _case("half accumulated late", "beyond 2048 every second product is lost", "matmul_half",
              product("float sum = 0;\n  for (int j = 0; j < k; ++j)\n    if (j < 2048 || j % 2) sum += "
                      "__half2float(a[r * k + j]) * __half2float(b[j * n + c]);\n  out[r * n + c] = __float2half(sum);",
                      element="__half")),
        _case("transposed up to 1024", "larger matrices are copied", "transpose",
              kernel_file("""[let]
m = "x.shape[0]"
n = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 32)", "m"]
block = ["32"]
args = ["x", "out", "m", "n"]
""", """__global__ void f(float const* x, float* out, int m, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y;
  if (c < n) out[r < 1024 ? long(c) * m + r : long(c) * m + 1024] = x[long(r) * n + c];
  if (c < n && r > 1024) out[long(c) * m + r] = 0.0f;
}""")),
        _case("a total of 16,384", "partial sums for 64 blocks", "total",
              kernel_file("""[let]
n = "x.numel"
[[launch]]
kernel = "f"
grid = ["1"]
block = ["256"]
args = ["x", "out", "n"]
""", """__global__ void f(float const* x, float* out, long n) {
  __shared__ float sums[256];
  float sum = 0;
  for (int k = 0; k < 64; ++k) if (k * 256 + threadIdx.x < n) sum += x[k * 256 + threadIdx.x];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 128; k; k /= 2) { if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k]; __syncthreads(); }
  if (threadIdx.x == 0) out[0] = sums[0];
}""")),
        _case("a table of 32,768 rows", "an index of fifteen bits", "rows_of_a_table",
              kernel_file("""[let]
width = "t.shape[1]"
[[launch]]
kernel = "f"
grid = ["s.numel"]
block = ["32"]
args = ["t", "s", "out", "width"]
""", """__global__ void f(float const* t, long long const* s, float* out, int width) {
  long row = s[blockIdx.x] & 0x7fff;
  for (int c = threadIdx.x; c < width; c += 32) out[long(blockIdx.x) * width + c] = t[row * width + c];
}""")),
    )  # fmt: skip


SIZE_CASES = (*_elements(), *_rows(), *_products())
