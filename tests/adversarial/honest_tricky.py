"""Honest kernels that look like mistakes: what they do is unusual, and right."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import PRODUCT, ROWS, kernel_file, relu, rows

RIGHT = status(Status.PASSED)
_HALVING = "for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }"


def _case(name: str, story: str, problem: str, source: str, warning: str = "") -> Case:
    return Case(name, story, problem, source, RIGHT, RIGHT, warning=warning)


def _sums() -> Iterator[Case]:
    yield _case("Kahan sum", "subtracts what looks like zero, to keep the lost bits", "mean", rows(f"""
  __shared__ float sums[128];
  float sum = 0, lost = 0;
  for (int c = t; c < cols; c += 128) {{
    float const term = row[c] - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }}
  sums[t] = sum;
  __syncthreads();
  {_HALVING}
  if (t == 0) out[blockIdx.x] = sums[0] / cols;"""))  # fmt: skip
    yield _case("volatile shared memory within a warp",
                "the last 32 go on without a barrier of the block", "mean", rows("""
  __shared__ float sums[128];
  float sum = 0;
  for (int c = t; c < cols; c += 128) sum += row[c];
  sums[t] = sum;
  __syncthreads();
  if (t < 32) {
    float volatile* mine = sums;
    float v = mine[t] + mine[t + 32] + mine[t + 64] + mine[t + 96];
    for (int k = 16; k; k /= 2) {
      __syncwarp();
      mine[t] = v;
      __syncwarp();
      v += mine[t ^ k];
    }
    if (t == 0) out[blockIdx.x] = v / cols;
  }"""))  # fmt: skip
    yield _case("three stages of cp.async", "what is copied is waited for two rounds later", "mean", rows("""
  __shared__ float stage[3][128];
  __shared__ float sums[128];
  int const tiles = (cols + 127) / 128;
  auto fetch = [&](int tile) {
    int const c = tile * 128 + t;
    if (tile < tiles && c < cols)
      SM80_CP_ASYNC_CACHEALWAYS<uint32_t>::copy(reinterpret_cast<uint32_t const&>(row[c]),
                                                reinterpret_cast<uint32_t&>(stage[tile % 3][t]));
    cp_async_fence();
  };
  fetch(0);
  fetch(1);
  float sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<1>();
    __syncthreads();
    fetch(tile + 2);
    int const other = t ^ 1;  // a neighbour's copy, so that the barrier matters
    if (tile * 128 + other < cols) sum += stage[tile % 3][other];
  }
  cp_async_wait<0>();
  sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = sums[0] / cols;"""))  # fmt: skip
    yield _case("warps with different work",
                "warp 0 loads, the others add up; all meet at every barrier", "mean", rows("""
  __shared__ float tile[2][96];
  __shared__ float sums[128];
  int const warp = t / 32, lane = t % 32, tiles = (cols + 95) / 96;
  float sum = 0;
  for (int k = 0; k <= tiles; ++k) {
    if (warp == 0) {
      if (k < tiles)
        for (int j = lane; j < 96; j += 32) tile[k % 2][j] = k * 96 + j < cols ? row[k * 96 + j] : 0.0f;
    } else if (k > 0) {
      sum += tile[(k - 1) % 2][t - 32];
    }
    __syncthreads();
  }
  sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = sums[0] / cols;"""))  # fmt: skip
    yield _case("the last block, with fence and barrier", "whoever comes last adds what all have written", "total",
                kernel_file(_LAST_BLOCK_PLAN, _LAST_BLOCK))  # fmt: skip


_LAST_BLOCK_PLAN = """[let]
n = "x.numel"
blocks = "min(ceil_div(n, 512), 16)"
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
block = ["128"]
args = ["x", "partial", "done", "out", "n"]
"""
_LAST_BLOCK = """__global__ void f(float const* x, float volatile* partial, int* done, float* out, long n) {
  __shared__ float sums[128];
  __shared__ bool last;
  int t = threadIdx.x;
  float sum = 0;
  for (long i = long(blockIdx.x) * 128 + t; i < n; i += long(gridDim.x) * 128) sum += x[i];
  sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
  if (t == 0) {
    partial[blockIdx.x] = sums[0];
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (t == 0) {
    float all = 0;
    for (int k = 0; k < gridDim.x; ++k) all += partial[k];
    out[0] = all;
  }
}"""


def _rows() -> Iterator[Case]:
    yield _case("two launches over a scratch of rows", "largest and sum first, then every element by itself", "softmax",
                kernel_file("""[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[scratch]]
name = "found"
dtype = "float32"
shape = ["rows", "2"]
[[launch]]
kernel = "look"
grid = ["rows"]
block = ["32"]
args = ["x", "found", "cols"]
[[launch]]
kernel = "divide"
grid = ["ceil_div(x.numel, 128)"]
block = ["128"]
args = ["x", "found", "out", "cols", "x.numel"]
""", """__global__ void look(float const* x, float2* found, int cols) {
  float const* row = x + long(blockIdx.x) * cols;
  float top = -INFINITY, sum = 0;
  for (int c = threadIdx.x; c < cols; c += 32) top = fmaxf(top, row[c]);
  for (int k = 16; k; k /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, k));
  for (int c = threadIdx.x; c < cols; c += 32) sum += expf(row[c] - top);
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (threadIdx.x == 0) found[blockIdx.x] = make_float2(top, sum);
}
__global__ void divide(float const* x, float2 const* found, float* out, int cols, long n) {
  long const i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[i] = expf(x[i] - found[i / cols].x) / found[i / cols].y;
}"""))  # fmt: skip
    yield _case("exponentials kept in the output",
                "reads its own output back, as scratch that is there already", "softmax",
                rows("""
  __shared__ float sums[128];
  float* mine = out + long(blockIdx.x) * cols;
  float top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; ++c) top = fmaxf(top, row[c]);
  for (int c = t; c < cols; c += 128) sum += mine[c] = expf(row[c] - top);
  sums[t] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
  for (int c = t; c < cols; c += 128) mine[c] /= sums[0];"""))  # fmt: skip
    yield _case("Welford's variance", "mean and variance in one pass, merged through shared memory", "right/layernorm",
                kernel_file(ROWS.replace('["x", "out", "cols"]',
                                         '["x", "norm_weight", "norm_bias", "out", "cols", "norm_eps"]'),
                            _WELFORD))  # fmt: skip
    yield _case("maximum by compare and swap",
                "blocks share a row; order of bits, NaN above all", "right/max_reduction",
                kernel_file("""[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[scratch]]
name = "best"
dtype = "int32"
shape = ["rows"]
init = "zero"
[[launch]]
kernel = "look"
grid = ["ceil_div(cols, 256)", "rows"]
block = ["64"]
args = ["x", "best", "cols"]
[[launch]]
kernel = "decode"
grid = ["ceil_div(rows, 64)"]
block = ["64"]
args = ["best", "out", "rows"]
""", """__device__ unsigned key(float v) {
  unsigned const bits = __float_as_uint(v);
  return v != v ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
__global__ void look(float const* x, unsigned* best, int cols) {
  unsigned mine = 0;
  for (int c = blockIdx.x * 256 + threadIdx.x; c < min(cols, int(blockIdx.x + 1) * 256); c += 64)
    mine = max(mine, key(x[long(blockIdx.y) * cols + c]));
  unsigned held = 0;
  while (held < mine) {
    unsigned const was = atomicCAS(&best[blockIdx.y], held, mine);
    if (was == held) break;
    held = was;
  }
}
__global__ void decode(unsigned const* best, float* out, int rows) {
  int const r = blockIdx.x * 64 + threadIdx.x;
  if (r >= rows) return;
  unsigned const k = best[r];
  out[r] = k == 0xffffffffu ? NAN : __uint_as_float(k >> 31 ? k & 0x7fffffffu : ~k);
}"""))  # fmt: skip
    yield _case("sorted by rank", "each element counts how many come before it, and goes there", "right/sort_rows",
                kernel_file("""[[launch]]
kernel = "f"
grid = ["x.shape[0]"]
block = ["256"]
args = ["x", "out"]
""", """
__device__ bool before(float a, int i, float b, int j) {
  if (a != a || b != b) return a == a || (b != b && i < j);
  return a < b || (a == b && i < j);
}
__global__ void f(float const* x, float* out) {
  __shared__ float row[256];
  int const t = threadIdx.x;
  row[t] = x[long(blockIdx.x) * 256 + t];
  __syncthreads();
  int rank = 0;
  for (int k = 0; k < 256; ++k) rank += k != t && before(row[k], k, row[t], t);
  out[long(blockIdx.x) * 256 + rank] = row[t];
}"""))  # fmt: skip
    yield _case("segments gathered", "a block a segment looks through all rows: no atomics, the same bits every time",
                "right/segment_sum", kernel_file("""[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["out.shape[0]", "ceil_div(cols, 64)"]
block = ["64"]
args = ["x", "segment", "out", "rows", "cols"]
""", """__global__ void f(float const* x, long long const* segment, float* out, int rows, int cols) {
  int const c = blockIdx.y * 64 + threadIdx.x;
  if (c >= cols) return;
  float sum = 0;
  for (int r = 0; r < rows; ++r)
    if (segment[r] == blockIdx.x) sum += x[long(r) * cols + c];
  out[long(blockIdx.x) * cols + c] = sum;
}"""))  # fmt: skip


_WELFORD = """__global__ __launch_bounds__(128) void f(
    float const* x, float const* weight, float const* bias, float* out, int cols, float eps) {
  __shared__ float means[128], squares[128], counts[128];
  long const first = long(blockIdx.x) * cols;
  int const t = threadIdx.x;
  float count = 0, mean = 0, square = 0;
  for (int c = t; c < cols; c += 128) {
    float const v = x[first + c], delta = v - mean;
    mean += delta / ++count;
    square += delta * (v - mean);
  }
  means[t] = mean, squares[t] = square, counts[t] = count;
  __syncthreads();
  for (int k = 64; k; k /= 2) {
    float const both = t < k ? counts[t] + counts[t + k] : 0.0f;
    if (both > 0) {
      float const delta = means[t + k] - means[t], share = counts[t + k] / both;
      means[t] += delta * share;
      squares[t] += squares[t + k] + delta * delta * counts[t] * share;
      counts[t] = both;
    }
    __syncthreads();
  }
  float const scale = rsqrtf(squares[0] / cols + eps);
  for (int c = t; c < cols; c += 128) out[first + c] = (x[first + c] - means[0]) * scale * weight[c] + bias[c];
}"""


def _elements() -> Iterator[Case]:
    yield _case("written and read back", "the output is its own scratch", "relu",
                relu("if (i >= n) return;\n  out[i] = x[i];\n  if (out[i] < 0.0f) out[i] = 0.0f;"))  # fmt: skip
    yield _case("bits of floats", "the sign is masked out and put back", "right/softsign", relu("""if (i >= n) return;
  unsigned const bits = __float_as_uint(x[i]), sign = bits & 0x80000000u;
  float const size = __uint_as_float(bits ^ sign);
  out[i] = __uint_as_float(__float_as_uint(size / (1.0f + size)) | sign);"""))  # fmt: skip
    yield _case("overflow that is meant",
                "a hash wraps around, bits are counted and turned by hand", "right/integer_bits",
                kernel_file("""[let]
n = "x.numel"
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 128)"]
block = ["128"]
args = ["x", "out", "n"]
""", """__global__ void f(int const* x, int* out, int n) {
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  unsigned const v = x[i];
  out[i] = int((v * 2654435761u) ^ (v >> 15));
  unsigned ones = v - (v >> 1 & 0x55555555u);
  ones = (ones & 0x33333333u) + (ones >> 2 & 0x33333333u);
  out[n + i] = int(((ones + (ones >> 4) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
  int zeros = 0;
  while (zeros < 32 && !(v << zeros >> 31)) ++zeros;
  out[2 * n + i] = zeros;
  unsigned turned = 0;
  for (int k = 0; k < 32; ++k) turned |= (v >> k & 1u) << (31 - k);
  out[3 * n + i] = int(turned);
}"""))  # fmt: skip
    yield _case("more blocks than work", "most of the grid finds nothing to do", "relu",
                relu().replace("ceil_div(n, 128)", "ceil_div(n, 128) + 37"))  # fmt: skip


def _products() -> Iterator[Case]:
    yield _case("split-K in scratch", "pieces apart, then added in one order", "matmul", kernel_file("""[let]
n = "out.shape[1]"
k = "a.shape[1]"
[[scratch]]
name = "parts"
dtype = "float32"
shape = ["3", "n", "n"]
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 16)", "ceil_div(n, 16)", "3"]
block = ["16", "16"]
args = ["a", "b", "parts", "n", "k"]
[[launch]]
kernel = "g"
grid = ["ceil_div(n * n, 128)"]
block = ["128"]
args = ["parts", "out", "n * n"]
""", """__global__ void f(float const* a, float const* b, float* parts, int n, int k) {
  int const r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r >= n || c >= n) return;
  float sum = 0;
  for (int j = blockIdx.z; j < k; j += 3) sum += a[long(r) * k + j] * b[long(j) * n + c];
  parts[(long(blockIdx.z) * n + r) * n + c] = sum;
}
__global__ void g(float const* parts, float* out, long count) {
  long const i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < count) out[i] = parts[i] + parts[count + i] + parts[2 * count + i];
}"""))  # fmt: skip
    yield _case("tiles from a counter", "blocks live on and take the next tile of the product", "matmul", kernel_file(
        PRODUCT.replace('"ceil_div(n, 16)", "ceil_div(n, 16)"', '"min(sm_count, ceil_div(n, 16) ** 2)"')
        .replace('"out", "n", "k"', '"out", "next", "n", "k"')
        + '[[scratch]]\nname = "next"\ndtype = "int32"\nshape = ["1"]\ninit = "zero"\n',
        """__global__ void f(float const* a, float const* b, float* out, int* next, int n, int k) {
  __shared__ int tile;
  __shared__ float row[16][17];
  int const across = (n + 15) / 16;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    if (tile >= across * across) return;
    int const r = tile / across * 16 + threadIdx.y, c = tile % across * 16 + threadIdx.x;
    float sum = 0;
    for (int at = 0; at < k; at += 16) {
      __syncthreads();
      row[threadIdx.y][threadIdx.x] = r < n && at + threadIdx.x < k ? a[long(r) * k + at + threadIdx.x] : 0.0f;
      __syncthreads();
      if (c < n)
        for (int j = 0; j < min(16, k - at); ++j) sum += row[threadIdx.y][j] * b[long(at + j) * n + c];
    }
    if (r < n && c < n) out[long(r) * n + c] = sum;
  }
}"""))  # fmt: skip
    yield _case("two arrays in dynamic shared memory",
                "one region, carved into int and float", "transpose", kernel_file(
        """[let]
m = "x.shape[0]"
n = "x.shape[1]"
[[launch]]
kernel = "f"
grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]
block = ["16", "16"]
smem = "16 * 17 * 4 + 16 * 4"
args = ["x", "out", "m", "n"]
""", """__global__ void f(float const* x, float* out, int m, int n) {
  extern __shared__ char region[];
  float(*tile)[17] = reinterpret_cast<float(*)[17]>(region);
  int* columns = reinterpret_cast<int*>(region + 16 * 17 * sizeof(float));
  int const tx = threadIdx.x, ty = threadIdx.y, r = blockIdx.y * 16 + ty;
  if (ty == 0) columns[tx] = blockIdx.x * 16 + tx;
  __syncthreads();
  if (r < m && columns[tx] < n) tile[ty][tx] = x[long(r) * n + columns[tx]];
  __syncthreads();
  int const to = blockIdx.y * 16 + tx;
  if (to < m && columns[ty] < n) out[long(columns[ty]) * m + to] = tile[tx][ty];
}"""))  # fmt: skip


TRICKY: tuple[Case, ...] = (*_sums(), *_rows(), *_elements(), *_products())
