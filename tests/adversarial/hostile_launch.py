"""Kernels that no device could launch as their plan asks; the emulator would have run them."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, kernel_file, relu

LAUNCH = Status.LAUNCH_ERROR


def _launch(*words: str) -> tuple[Expected, Expected]:
    return status(LAUNCH, words=words), status(LAUNCH, words=words)


def _refused(*words: str) -> tuple[Expected, Expected]:
    return refused(*words), refused(*words)


def _wide(block: str, grid: str, head: str = "", extra: str = "", body: str = RELU, before: str = "") -> str:
    """Return ReLU in blocks of another size: `head` stands before the kernel's name, `extra` in its launch."""
    plan = ELEMENTS.replace('["ceil_div(n, 128)"]', grid).replace('["128"]', block).replace("args ", f"{extra}args ")
    return kernel_file(plan, f"""{before}
__global__ {head} void f(float const* x, float* out, long n) {{
  long i = long(blockIdx.x) * blockDim.x * blockDim.y * blockDim.z
    + threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  {body}
}}""")  # fmt: skip


MANY = """float v[80];
  for (int k = 0; k < 80; ++k) v[k] = x[(i + k * 7) % n];
  for (int s = 0; s < int(n & 3) + 1; ++s)
    for (int k = 0; k < 80; ++k) v[k] = v[k] * v[(k + 13) % 80] + v[(k + 37) % 80];
  float all = 0;
  for (int k = 0; k < 80; ++k) all += v[k];
  if (i < n) out[i] = all == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);"""
"""Eighty values alive at once: more than 64 registers."""
BLOCKS = '["ceil_div(n, 1024)"]'
STATIC = ("__shared__ float tile[10240];\n  extern __shared__ float more[];\n"
          "  tile[threadIdx.x] = i < n ? x[i] : 0.0f;\n  more[threadIdx.x] = tile[threadIdx.x];\n  __syncthreads();\n"
          "  if (i < n) out[i] = fmaxf(more[threadIdx.x], 0.0f);")  # fmt: skip


def _registers() -> tuple[Case, ...]:
    return (
        Case("more registers than a block has", "eighty values in each of 1024 threads", "relu",
             _wide('["1024"]', BLOCKS, body=MANY), *_launch("registers", "65536", "__launch_bounds__(1024)")),
        Case("more registers than a block has, by __maxnreg__", "255 of them on request, in 512 threads", "relu",
             _wide('["512"]', '["ceil_div(n, 512)"]', "__maxnreg__(255)", body=MANY.replace("80", "200")),
             *_launch("registers", "65536")),
        Case("more registers at the problem's own size only", "small inputs get small blocks", "relu",
             _wide('["1024 if n > 100000 else 128"]', '["ceil_div(n, 1024 if n > 100000 else 128)"]', body=MANY),
             *_launch("registers", "workload benchmark")),
        Case("more local memory than a thread can have", "an array of a megabyte in every thread", "relu",
             relu("float own[262144];\n  for (int k = 0; k < 262144; k += 1000) own[k] = x[(i + k) % n];\n"
                  "  float last = own[(i * 1000) % 262144 / 1000 * 1000];\n"
                  "  if (i < n) out[i] = last == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);"),
             *(status(LAUNCH, Status.COMPILE_ERROR, Status.UNSUPPORTED, line=False),) * 2),
    )  # fmt: skip


def _bounds() -> tuple[Case, ...]:
    return (
        Case("more threads than its launch bounds", "tuned for 128, launched with 256", "relu",
             _wide('["256"]', '["ceil_div(n, 256)"]', "__launch_bounds__(128)"),
             *_launch("256 threads", "__launch_bounds__", "128")),
        Case("more threads than its launch bounds, in two dimensions", "16 x 16 against 128", "relu",
             _wide('["16", "16"]', '["ceil_div(n, 256)"]', "__launch_bounds__(128)"), *_launch("256 threads", "128")),
        Case("more threads than a template's launch bounds", "the sweep changed one of the two numbers", "relu",
             kernel_file(ELEMENTS.replace('"f"', '"f<64>"'), """template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void f(float const* x, float* out, long n) {
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}"""), *_launch("128 threads", "64")),
        Case("launch bounds broken at the problem's own size only", "the small inputs fit", "relu",
             _wide('["256 if n > 100000 else 128"]', '["ceil_div(n, 128)"]', "__launch_bounds__(128)",
                   body="i = long(blockIdx.x) * 128 + threadIdx.x;\n  if (threadIdx.x < 128 && i < n) out[i] = "
                        "fmaxf(x[i], 0.0f);"),
             *_launch("256 threads", "workload benchmark")),
        Case("another block than it requires", "__block_size__ is a promise", "relu",
             _wide('["64"]', '["ceil_div(n, 64)"]', "__block_size__((128, 1, 1))"), *_launch("__block_size__", "128")),
    )  # fmt: skip


def _shared() -> tuple[Case, ...]:
    return (
        Case("static and dynamic shared memory together", "each alone fits", "relu",
             relu(STATIC, plan=ELEMENTS.replace("args ", 'smem   = "smem_max - 20000"\nargs ')),
             *_launch("40960", "shared memory", "232448")),
        Case("static and dynamic shared memory at the problem's own size", "small rows, small tiles", "relu",
             relu(STATIC, plan=ELEMENTS.replace("args ", 'smem   = "min(n * 4, 200000)"\nargs ')),
             *_launch("shared memory", "workload benchmark")),
    )  # fmt: skip


def _together() -> tuple[Case, ...]:
    sync = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;"
    body = f"{RELU}\n  cg::this_grid().sync();"
    return (
        Case("a cooperative launch that does not fit", "all blocks must be there at once", "relu",
             _wide('["1024"]', '["ceil_div(n, 1024)"]', extra="cooperative = true\n", body=body, before=sync),
             *_launch("cooperative", "264", "workload benchmark")),
        Case("clusters the plan does not know", "__cluster_dims__ is part of the launch", "relu",
             _wide('["128"]', '["ceil_div(n, 256) * 2"]', "__cluster_dims__(2, 1, 1)"),
             *_launch("__cluster_dims__", "cluster = [2]")),
        Case("another cluster than it requires", "two against four", "relu",
             _wide('["128"]', '["ceil_div(n, 512) * 4"]', "__cluster_dims__(2, 1, 1)", "cluster = [4]\n"),
             *_launch("__cluster_dims__", "(2, 1, 1)")),
        Case("a larger cluster than its launch bounds", "the third number of __launch_bounds__", "relu",
             _wide('["128"]', '["ceil_div(n, 512) * 4"]', "__launch_bounds__(128, 1, 2)", "cluster = [4]\n"),
             *_launch("cluster", "at most 2")),
        Case("a cluster that does not divide the grid", "the last cluster is not whole", "relu",
             _wide('["128"]', '["ceil_div(n, 256) * 2 + 1"]', extra="cluster = [2]\n"), *_refused("multiple")),
        Case("a cluster of sixteen", "more than every device promises", "relu",
             _wide('["128"]', '["round_up(ceil_div(n, 128), 16)"]', extra="cluster = [16]\n"), *_refused("cluster")),
        Case("too many threads along z", "1 x 1 x 128", "relu",
             _wide('["1", "1", "128"]', '["ceil_div(n, 128)"]'), *_refused("64")),
        Case("a grid too long in z", "65,536 blocks", "relu",
             _wide('["128"]', '["1", "1", "65536"]'), *_refused("65535")),
        Case("a grid too long in x", "2 to the 31 blocks", "relu", _wide('["128"]', '["2 ** 31"]'),
             *_refused("2147483647")),
        Case("a grid too long at the problem's own size only", "rows along y", "relu",
             _wide('["128"]', '["1", "ceil_div(n, 32)"]',
                   body="i = long(blockIdx.y) * 128 + threadIdx.x;\n  if (i < n) out[i] = fmaxf(x[i], 0.0f);"),
             *_refused("65535", "benchmark")),
    )  # fmt: skip


LAUNCH_CASES = _registers() + _bounds() + _shared() + _together()
